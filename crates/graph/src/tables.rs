//! Where elements of a graph, and programs beside it, meet in tables.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Tables by type and name. A class that is given a name takes the table of that name; whoever asks first makes it. A
/// program that feeds tables from elsewhere puts them here before the graph is configured.
#[derive(Clone, Default)]
pub struct Tables(Arc<Mutex<ByName>>);

type ByName = HashMap<(TypeId, String), Arc<dyn Any + Send + Sync>>;

impl Tables {
    /// No tables yet.
    pub fn new() -> Tables {
        Tables::default()
    }

    /// The table of this type and name; made if there is none.
    pub fn get_or<T: Any + Send + Sync>(&self, name: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (TypeId::of::<T>(), name.to_owned());
        if let Some(Ok(table)) = all.get(&key).cloned().map(Arc::downcast::<T>) {
            return table;
        }
        let table = Arc::new(make());
        all.insert(key, table.clone());
        table
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(all.keys().map(|(_, name)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_type_are_one_table() {
        let tables = Tables::new();
        let one = tables.get_or("main", || 7u32);
        assert!(Arc::ptr_eq(&one, &tables.get_or("main", || 8u32)));
        assert_eq!((*tables.get_or("other", || 8u32), *tables.get_or("main", || 9u64)), (8, 9));
    }
}
