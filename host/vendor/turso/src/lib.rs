//! Replaces `turso` 0.8.3: the names cubecl-environment needs, without a database.
//!
//! Reason: cubecl keeps compiled kernels only with its feature `persistence`, which depends on turso, a database of
//! 70 crates with a lock between processes that it calls experimental. The host keeps kernels in a file of its own
//! (`host/engine/src/kernel_cache`). No database opens here: cubecl then keeps its entries in memory, where the host
//! finds them. The workspace `[patch]`es this crate in. Written against cubecl-environment 0.11.3.

use std::{fmt, io, ops::Deref, time::Duration};

/// Why no database opens, or what a caller says of it.
#[derive(Debug, Clone)]
pub enum Error {
    Busy(String),
    BusySnapshot(String),
    Error(String),
    IoError(io::ErrorKind, &'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(text) | Self::BusySnapshot(text) | Self::Error(text) => f.write_str(text),
            Self::IoError(kind, what) => write!(f, "{what}: {kind}"),
        }
    }
}

impl std::error::Error for Error {}

/// Opens no database.
#[derive(Debug)]
pub struct Builder;

impl Builder {
    pub fn new_local(_: &str) -> Self {
        Self
    }

    pub fn read_only(self, _: bool) -> Self {
        self
    }

    pub fn experimental_multiprocess_wal(self, _: bool) -> Self {
        self
    }

    pub fn experimental_vacuum(self, _: bool) -> Self {
        self
    }

    pub async fn build(self) -> Result<Database, Error> {
        Err(Error::Error("this build has no database".into()))
    }
}

/// There is none, and so none of what it would give.
#[derive(Debug)]
pub enum Database {}

impl Database {
    pub fn connect(&self) -> Result<Connection, Error> {
        match *self {}
    }
}

#[derive(Debug)]
pub enum Connection {}

impl Connection {
    pub fn busy_timeout(&self, _: Duration) -> Result<(), Error> {
        match *self {}
    }

    pub async fn execute<P>(&self, _: impl AsRef<str>, _: P) -> Result<u64, Error> {
        match *self {}
    }

    pub async fn query<P>(&self, _: impl AsRef<str>, _: P) -> Result<Rows, Error> {
        match *self {}
    }

    pub async fn pragma_query<F>(&self, _: &str, _: F) -> Result<(), Error>
    where
        F: FnMut(&Row) -> Result<(), Error>,
    {
        match *self {}
    }

    pub async fn transaction_with_behavior(
        &mut self,
        _: transaction::TransactionBehavior,
    ) -> Result<transaction::Transaction, Error> {
        match *self {}
    }
}

#[derive(Debug)]
pub enum Rows {}

impl Rows {
    pub async fn next(&mut self) -> Result<Option<Row>, Error> {
        match *self {}
    }
}

#[derive(Debug)]
pub enum Row {}

impl Row {
    pub fn get<T>(&self, _: usize) -> Result<T, Error> {
        match *self {}
    }
}

pub mod transaction {
    use super::{Connection, Deref, Error};

    #[derive(Debug, Clone, Copy)]
    pub enum TransactionBehavior {
        Deferred,
        Immediate,
    }

    #[derive(Debug)]
    pub enum Transaction {}

    impl Transaction {
        pub async fn commit(self) -> Result<(), Error> {
            match self {}
        }
    }

    impl Deref for Transaction {
        type Target = Connection;

        fn deref(&self) -> &Connection {
            match *self {}
        }
    }
}
