/// Names the values of an enumeration, and lists them: both from one table, which does not compile with a gap.
///
/// A line of the table is a variant, or one with a variant of another enumeration in it, and its name. The type gets `ALL`, in the
/// order of the table, and `name`, whose documentation stands before the type.
///
/// ```
/// #[derive(Debug, PartialEq)]
/// enum Order {
///     Rows,
///     Columns,
/// }
///
/// kernels::named! {
///     /// What settings call it.
///     Order {
///         Rows => "rows",
///         Columns => "columns",
///     }
/// }
///
/// assert_eq!(Order::ALL, [Order::Rows, Order::Columns]);
/// assert_eq!(Order::Columns.name(), "columns");
/// ```
///
/// ```compile_fail,E0004
/// # enum Order { Rows, Columns }
/// kernels::named! {
///     Order {
///         Rows => "rows",
///     }
/// }
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($variant:ident $(($inner:ident::$of_inner:ident))? => $name:literal,)+ }) => {
        impl $type {
            /// Every one of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant $(($inner::$of_inner))?),+];

            $(#[$doc])*
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant $(($inner::$of_inner))? => $name),+
                }
            }
        }
    };
}
