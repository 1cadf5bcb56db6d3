//! Quiescent-state reclamation: tables read without locks, changed by one writer.
