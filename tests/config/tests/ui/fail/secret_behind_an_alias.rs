use kitbag::{ConfigNamespaces, Secret};

type Token = Secret<String>;
type Name = String;

mod marked {
    #[derive(kitbag::ConfigNamespaces)]
    struct Marked {
        /// What is called a token and is one.
        #[config(ns = "store", secret)]
        token: super::Token,
        /// What is called a secret and is none.
        #[config(ns = "store", secret)]
        name: super::Name,
    }
}

mod given {
    #[derive(kitbag::ConfigNamespaces)]
    struct Given {
        /// A secret in the program's text.
        #[config(ns = "store", default = "hunter2")]
        token: Option<super::Token>,
    }
}

mod bared {
    #[derive(kitbag::ConfigNamespaces)]
    #[config(derived(
        store.hidden: super::Token = super::hidden(store.token),
        store.header: super::Name = super::header(store.token),
    ))]
    struct Bared {
        /// Token.
        #[config(ns = "store")]
        token: super::Token,
    }
}

#[derive(ConfigNamespaces)]
#[config(derived(store.hidden: Token = hidden(store.token)))]
struct Fine {
    /// Token.
    #[config(ns = "store", secret)]
    token: Secret<String>,
}

fn hidden(token: &Token) -> Token {
    token.clone()
}

fn header(token: &Token) -> String {
    token.expose().clone()
}

fn main() {}
