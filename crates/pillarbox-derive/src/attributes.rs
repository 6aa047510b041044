//! The options that users write in `#[event_type(…)]` and `#[aggregate_type(…)]`.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitStr, Result};

use crate::case::Case;
use crate::kind::Kind;

/// Where an attribute stands, which decides what may be written in it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Target {
    Enum,
    Variant,
    Struct,
}

/// The options found on one item.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) rename: Option<LitStr>,
    pub(crate) rename_all: Option<Case>,
}

impl Options {
    /// Reads the options from all attributes of this kind; others are left alone.
    pub(crate) fn read(attributes: &[Attribute], target: Target, kind: &Kind) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(kind.attribute)) {
            attribute.parse_nested_meta(|meta| options.read_key(&meta, target))?;
        }
        Ok(options)
    }

    fn read_key(&mut self, meta: &ParseNestedMeta<'_>, target: Target) -> Result<()> {
        if meta.path.is_ident("rename") {
            if target == Target::Enum {
                return Err(
                    meta.error("`rename` stands on a variant or a unit struct; an enum takes `rename_all`")
                );
            }
            set_once(&mut self.rename, meta.value()?.parse()?, meta)
        } else if meta.path.is_ident("rename_all") {
            if target != Target::Enum {
                return Err(meta.error("`rename_all` stands on an enum; use `rename` here"));
            }
            set_once(&mut self.rename_all, case(&meta.value()?.parse()?)?, meta)
        } else {
            Err(meta.error("unknown key: `rename` and `rename_all` are known"))
        }
    }
}

pub(crate) fn set_once<T>(option: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("this key is given twice")),
    }
}

fn case(name: &LitStr) -> Result<Case> {
    Case::from_name(&name.value()).ok_or_else(|| {
        syn::Error::new(name.span(), format!("unknown case {:?}: one of {}", name.value(), Case::names()))
    })
}
