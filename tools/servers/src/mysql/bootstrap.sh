# Initialises a data folder like mariadb-install-db, which would need programs of further packages.
# Arguments: the folder of the SQL files, the folder of the tables, the server with its options.
share=$1
mkdir "$2" || exit 1
shift 2
{
    printf '%s\n' 'create database if not exists mysql;' 'use mysql;' 'set @auth_root_socket = null;'
    for part in system_tables performance_tables system_tables_data; do
        # Newer releases use the other name.
        cat "$share/mysql_$part.sql" 2> /dev/null || cat "$share/mariadb_$part.sql" || exit 1
    done
    cat "$share/maria_add_gis_sp_bootstrap.sql" || exit 1
    cat "$share/mysql_sys_schema.sql" 2> /dev/null || cat "$share/mariadb_sys_schema.sql" || exit 1
} | "$@"
