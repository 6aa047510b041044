//! Evaluates licence expressions of SPDX, such as `(MIT OR Apache-2.0) AND Unicode-3.0`.

/// Whether the expression can be met with licences of the list. A slash, an old way to write it, means OR.
pub(super) fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { tokens: &tokens, allowed };
    reader.either() == Some(true) && reader.tokens.is_empty()
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    allowed: &'a [String],
}

/// Each reads the beginning of the tokens; none means that the expression is malformed.
impl Reader<'_> {
    fn next_is(&mut self, token: &str) -> bool {
        let is_it = self.tokens.first() == Some(&token);
        if is_it {
            self.tokens = &self.tokens[1..];
        }
        is_it
    }

    fn either(&mut self) -> Option<bool> {
        let mut met = self.both()?;
        while self.next_is("OR") {
            met |= self.both()?;
        }
        Some(met)
    }

    fn both(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.next_is("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.next_is("(") {
            let met = self.either()?;
            return self.next_is(")").then_some(met);
        }
        let (name, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        let mut licence = (*name).to_owned();
        if self.next_is("WITH") {
            let (exception, rest) = self.tokens.split_first()?;
            self.tokens = rest;
            licence = format!("{licence} WITH {exception}");
        }
        Some(self.allowed.contains(&licence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-163
    #[test]
    fn one_allowed_way_is_enough_and_every_demand_is_met() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT MIT",
            "GPL-3.0 OR MIT AND GPL-2.0",
        ] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }
}
