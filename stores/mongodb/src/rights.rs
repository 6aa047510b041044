//! Privileges: checks whether the user has what delivery, purging and operators need.

use mongodb::bson::{Bson, Document, doc};
use pillarbox::port::Lacking;

use crate::call::Call;
use crate::error::DriverError;
use crate::outbox::Names;

/// Actions that delivery needs on the node collection, where it also deletes documents.
const WRITES: &[&str] = &["find", "insert", "update", "remove"];
/// Actions that delivery needs on the other collections. Cleaning up also deletes events, and the documents
/// that changes of held groups leave.
const KEEPS: &[&str] = &["find", "insert", "update"];

/// Finds missing privileges. A server that does not report privileges (FerretDB) counts as granting all.
pub(crate) async fn lacking(call: &mut Call<'_>) -> Result<Lacking, DriverError> {
    let database = &call.outbox().database;
    let asked = database.run_command(doc! { "connectionStatus": 1, "showPrivileges": true }).await;
    Ok(asked.map_or_else(|_| Lacking::default(), |told| of(&told, database.name(), call.names())))
}

/// Finds missing privileges in a server's answer. Without an authenticated user, everything is allowed.
fn of(told: &Document, database: &str, names: &Names) -> Lacking {
    let Ok(auth) = told.get_document("authInfo") else { return Lacking::default() };
    let list = |name| auth.get_array(name).ok().filter(|list| !list.is_empty());
    let (Some(users), Some(privileges)) =
        (list("authenticatedUsers"), auth.get_array("authenticatedUserPrivileges").ok())
    else {
        return Lacking::default();
    };
    let may = |collection: &str, action: &str| {
        privileges.iter().filter_map(Bson::as_document).any(|one| grants(one, database, collection, action))
    };
    let may_all = |collection: &str, actions: &[&str]| actions.iter().all(|action| may(collection, action));
    let delivers = may_all(&names.node, WRITES)
        && [&names.event, &names.meta, &names.group].into_iter().all(|name| may_all(name, KEEPS));
    let grant = || {
        let user = users.first().and_then(Bson::as_document);
        let field = |name| user.and_then(|user| user.get_str(name).ok()).unwrap_or_default();
        vec![format!(
            "db.getSiblingDB({:?}).grantRolesToUser({:?}, [{{ role: \"readWrite\", db: {database:?} }}])",
            field("db"),
            field("user"),
        )]
    };
    Lacking {
        deliver: if delivers { Vec::new() } else { grant() },
        purge: if [&names.event, &names.meta].into_iter().all(|name| may(name, "remove")) {
            Vec::new()
        } else {
            grant()
        },
        operate: if may(&names.group, "remove") && may_all(&names.audit, &["find", "insert"]) {
            Vec::new()
        } else {
            grant()
        },
    }
}

/// Whether a privilege allows an action on a collection. An empty name in a privilege matches every database
/// or collection.
fn grants(privilege: &Document, database: &str, collection: &str, action: &str) -> bool {
    let Ok(resource) = privilege.get_document("resource") else { return false };
    let within = |name, of: &str| resource.get_str(name).is_ok_and(|value| value.is_empty() || value == of);
    let covers = resource.get_bool("anyResource").unwrap_or(false)
        || (within("db", database) && within("collection", collection));
    let acts = privilege.get_array("actions").is_ok_and(|actions| {
        actions.iter().filter_map(Bson::as_str).any(|one| one == action || one == "anyAction")
    });
    covers && acts
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox::model::TableName;

    fn told(privileges: Vec<Document>) -> Document {
        let users = vec![doc! { "user": "relay", "db": "admin" }];
        doc! { "authInfo": { "authenticatedUsers": users, "authenticatedUserPrivileges": privileges } }
    }

    fn on(database: &str, collection: &str, actions: &[&str]) -> Document {
        doc! { "resource": { "db": database, "collection": collection }, "actions": actions }
    }

    fn lacking(told: &Document) -> (usize, usize) {
        let lacking = of(told, "shop", &Names::new(&TableName::default()));
        (lacking.deliver.len(), lacking.purge.len())
    }

    /// PBX-104
    #[test]
    fn a_user_who_may_read_and_write_the_database_lacks_nothing() {
        assert_eq!(lacking(&told(vec![on("shop", "", WRITES)])), (0, 0));
        assert_eq!(lacking(&told(vec![on("", "", WRITES)])), (0, 0));
        let any = doc! { "resource": { "anyResource": true }, "actions": ["anyAction"] };
        assert_eq!(lacking(&told(vec![any])), (0, 0));
        let each = ["outbox_event", "outbox_node", "outbox_meta", "outbox_group"];
        assert_eq!(lacking(&told(each.iter().map(|name| on("shop", name, WRITES)).collect())), (0, 0));
    }

    /// PBX-104
    #[test]
    fn a_server_that_tells_nothing_refuses_nobody() {
        assert_eq!(lacking(&doc! { "ok": 1 }), (0, 0));
        let open = doc! { "authInfo": { "authenticatedUsers": [], "authenticatedUserPrivileges": [] } };
        assert_eq!(lacking(&open), (0, 0));
        let without = doc! { "authInfo": { "authenticatedUsers": [{ "user": "relay", "db": "admin" }] } };
        assert_eq!(lacking(&without), (0, 0));
    }

    /// PBX-104
    #[test]
    fn what_is_lacking_is_told_as_the_command_that_grants_it() {
        let reader = told(vec![on("shop", "", &["find"])]);
        let lacking = of(&reader, "shop", &Names::new(&TableName::default()));
        let command =
            "db.getSiblingDB(\"admin\").grantRolesToUser(\"relay\", [{ role: \"readWrite\", db: \"shop\" }])";
        assert_eq!((lacking.deliver, lacking.purge), (vec![command.to_owned()], vec![command.to_owned()]));
        let elsewhere = told(vec![on("other", "", WRITES)]);
        assert_eq!(self::lacking(&elsewhere), (1, 1));
        let no_meta =
            [on("shop", "outbox_node", WRITES), on("shop", "outbox_event", WRITES), on("shop", "", KEEPS)];
        assert_eq!(
            self::lacking(&told(no_meta.to_vec())),
            (0, 1),
            "old changes of held groups can't be removed"
        );
        let keeps = vec![on("shop", "outbox_node", WRITES), on("shop", "", KEEPS)];
        assert_eq!(self::lacking(&told(keeps)), (0, 1), "only purging needs to delete events");
    }
}
