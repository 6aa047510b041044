-- The account of the tests, which create their own databases; the server reads this before it accepts connections.
CREATE DATABASE IF NOT EXISTS pillarbox;
CREATE USER IF NOT EXISTS 'pillarbox'@'%' IDENTIFIED BY 'pillarbox';
GRANT ALL PRIVILEGES ON *.* TO 'pillarbox'@'%' WITH GRANT OPTION;
