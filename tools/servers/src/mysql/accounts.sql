-- The account of the tests, which make databases of their own; read by the server before it takes connections.
CREATE DATABASE IF NOT EXISTS pillarbox;
CREATE USER IF NOT EXISTS 'pillarbox'@'%' IDENTIFIED BY 'pillarbox';
GRANT ALL PRIVILEGES ON *.* TO 'pillarbox'@'%' WITH GRANT OPTION;
