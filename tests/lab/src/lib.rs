//! Whole routers between real Linux hosts in network namespaces.
