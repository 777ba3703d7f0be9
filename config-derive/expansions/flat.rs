#[doc(hidden)]
#[allow(dead_code, non_upper_case_globals)]
const PoolBag_of_two_schemas__put_each_into_a_module_of_its_own: () = ();
///Namespace `pool` under a recorder: every read is noted.
#[allow(dead_code)]
struct PoolRecording<'a> {
    bag: &'a PoolBag,
    reads: &'a ::kitbag::__private::Reads,
    offset: usize,
}
#[automatically_derived]
#[allow(dead_code, deprecated)]
impl<'a> PoolRecording<'a> {
    #[doc(hidden)]
    #[must_use]
    fn at(
        bag: &'a PoolBag,
        reads: &'a ::kitbag::__private::Reads,
        offset: usize,
    ) -> Self {
        Self { bag, reads, offset }
    }
    ///Worker threads; one per core unless set.
    #[inline]
    #[must_use]
    fn workers(&self) -> usize {
        self.reads.note(self.offset + 0usize);
        self.bag.workers()
    }
    ///Jobs that may wait per worker.
    #[inline]
    #[must_use]
    fn queue(&self) -> ::kitbag::Hot<'a, usize> {
        self.reads.note(self.offset + 1usize);
        self.bag.queue()
    }
    ///Derived: `capacity(pool.workers, pool.queue)`.
    #[inline]
    #[must_use]
    fn capacity(&self) -> ::kitbag::Hot<'a, usize> {
        self.reads.note(self.offset + 2usize);
        self.bag.capacity()
    }
}
const _: () = {
    #[allow(dead_code)]
    fn __kitbag_defaults() {
        let _: usize = 32;
    }
};
///Resolved values of namespace `pool`.
#[allow(dead_code)]
#[derive(::core::fmt::Debug)]
struct PoolBag {
    workers: usize,
    queue: usize,
    capacity: usize,
}
#[automatically_derived]
#[allow(dead_code)]
impl PoolBag {
    ///Worker threads; one per core unless set.
    #[inline]
    #[must_use]
    fn workers(&self) -> usize {
        self.workers
    }
    ///Jobs that may wait per worker.
    #[inline]
    #[must_use]
    fn queue(&self) -> ::kitbag::Hot<'_, usize> {
        ::kitbag::Hot::new(&self.queue)
    }
    ///Derived: `capacity(pool.workers, pool.queue)`.
    #[inline]
    #[must_use]
    fn capacity(&self) -> ::kitbag::Hot<'_, usize> {
        ::kitbag::Hot::new(&self.capacity)
    }
}
#[automatically_derived]
#[allow(deprecated, clippy::large_stack_arrays)]
impl ::kitbag::Bag for PoolBag {
    const INFO: ::kitbag::NamespaceInfo = ::kitbag::NamespaceInfo {
        path: "pool",
        doc: "",
        own_struct: false,
        leaves: &[
            ::kitbag::LeafInfo {
                name: "workers",
                path: "pool.workers",
                doc: "Worker threads; one per core unless set.",
                type_name: "usize",
                class: ::kitbag::Class::Launch,
                policy: ::kitbag::Policy::Live,
                flag: "workers",
                start: ::kitbag::Start::Computed(::kitbag::Computation {
                    function: "Facts::cpus",
                    inputs: &[],
                    run: {
                        fn __kitbag_run(
                            __kitbag_inputs: &::kitbag::__private::Inputs<'_>,
                        ) -> ::kitbag::__private::Erased {
                            ::kitbag::__private::erase::<
                                usize,
                            >(Facts::cpus(__kitbag_inputs.facts()))
                        }
                        __kitbag_run
                    },
                    oracle: ::core::option::Option::None,
                    cases: &[],
                    twin: ::core::option::Option::None,
                }),
                range: ::core::option::Option::None,
                env: ::core::option::Option::None,
                aliases: &[],
                deprecated: ::core::option::Option::None,
                cache_key: true,
                resolution_only: false,
                bootstrap: false,
                ops: ::kitbag::__private::LeafOps::of::<usize>(),
            },
            ::kitbag::LeafInfo {
                name: "queue",
                path: "pool.queue",
                doc: "Jobs that may wait per worker.",
                type_name: "usize",
                class: ::kitbag::Class::Hot,
                policy: ::kitbag::Policy::Live,
                flag: "queue",
                start: ::kitbag::Start::Default {
                    text: "32",
                    make: ::core::option::Option::None,
                },
                range: ::core::option::Option::Some("1..=4096"),
                env: ::core::option::Option::None,
                aliases: &[],
                deprecated: ::core::option::Option::None,
                cache_key: true,
                resolution_only: false,
                bootstrap: false,
                ops: ::kitbag::__private::LeafOps::of::<usize>()
                    .ranging({
                        fn __kitbag_range(
                            __kitbag_value: ::core::option::Option<
                                &::kitbag::__private::Erased,
                            >,
                        ) -> ::core::option::Option<::std::string::String> {
                            ::kitbag::__private::range::<usize>(__kitbag_value, 1..=4096)
                        }
                        __kitbag_range
                    }),
            },
            ::kitbag::LeafInfo {
                name: "capacity",
                path: "pool.capacity",
                doc: "Derived: `capacity(pool.workers, pool.queue)`.",
                type_name: "usize",
                class: ::kitbag::Class::Derived,
                policy: ::kitbag::Policy::Live,
                flag: "",
                start: ::kitbag::Start::Computed(::kitbag::Computation {
                    function: "capacity",
                    inputs: &["pool.workers", "pool.queue"],
                    run: {
                        fn __kitbag_run(
                            __kitbag_inputs: &::kitbag::__private::Inputs<'_>,
                        ) -> ::kitbag::__private::Erased {
                            let __kitbag_keys = <Args as ::kitbag::ConfigNamespaces>::keys();
                            ::kitbag::__private::erase::<
                                usize,
                            >(
                                capacity(
                                    __kitbag_inputs.get(__kitbag_keys.pool.workers),
                                    __kitbag_inputs.get(__kitbag_keys.pool.queue),
                                ),
                            )
                        }
                        __kitbag_run
                    },
                    oracle: ::core::option::Option::Some({
                        fn __kitbag_run(
                            __kitbag_inputs: &[::kitbag::__private::Erased],
                        ) -> ::kitbag::__private::Erased {
                            let __kitbag_keys = <Args as ::kitbag::ConfigNamespaces>::keys();
                            ::kitbag::__private::erase::<
                                usize,
                            >(
                                capacity(
                                    ::kitbag::__private::argument(
                                        __kitbag_inputs,
                                        0usize,
                                        __kitbag_keys.pool.workers,
                                    ),
                                    ::kitbag::__private::argument(
                                        __kitbag_inputs,
                                        1usize,
                                        __kitbag_keys.pool.queue,
                                    ),
                                ),
                            )
                        }
                        __kitbag_run
                    }),
                    cases: &[],
                    twin: ::core::option::Option::None,
                }),
                range: ::core::option::Option::None,
                env: ::core::option::Option::None,
                aliases: &[],
                deprecated: ::core::option::Option::None,
                cache_key: true,
                resolution_only: false,
                bootstrap: false,
                ops: ::kitbag::__private::LeafOps::of::<usize>(),
            },
        ],
        replaced: &[],
        retired: &[],
        validations: &[],
        children: &[],
    };
    fn build(values: &[::kitbag::__private::Erased]) -> Self {
        Self {
            workers: <usize as ::kitbag::Leaf>::take(values, 0usize),
            queue: <usize as ::kitbag::Leaf>::take(values, 1usize),
            capacity: <usize as ::kitbag::Leaf>::take(values, 2usize),
        }
    }
    fn read(&self, index: usize) -> ::core::option::Option<::kitbag::__private::Erased> {
        match index {
            2usize => {
                ::core::option::Option::Some(
                    ::kitbag::__private::erase_copy::<usize>(self.capacity().into_ref()),
                )
            }
            _ => ::core::option::Option::None,
        }
    }
}
///Typed keys of namespace `pool` within schema `S`.
#[allow(dead_code)]
struct PoolKeys<S> {
    ///Key of `pool.workers`.
    workers: ::kitbag::Key<S, usize>,
    ///Key of `pool.queue`.
    queue: ::kitbag::Key<S, usize>,
    ///Key of `pool.capacity`.
    capacity: ::kitbag::Key<S, usize>,
}
#[automatically_derived]
impl<S> PoolKeys<S> {
    #[doc(hidden)]
    #[must_use]
    fn at(offset: usize) -> Self {
        Self {
            workers: ::kitbag::Key::new(offset + 0usize),
            queue: ::kitbag::Key::new(offset + 1usize),
            capacity: ::kitbag::Key::new(offset + 2usize),
        }
    }
}
///Setters of namespace `pool` in a change of form `F`.
#[allow(dead_code)]
struct PoolSetters<'a, F> {
    edit: &'a mut ::kitbag::__private::Edit,
    offset: usize,
    form: ::core::marker::PhantomData<F>,
}
#[automatically_derived]
#[allow(dead_code)]
impl<'a, F> PoolSetters<'a, F> {
    #[doc(hidden)]
    fn at(edit: &'a mut ::kitbag::__private::Edit, offset: usize) -> Self {
        Self {
            edit,
            offset,
            form: ::core::marker::PhantomData,
        }
    }
    ///Sets `pool.workers`.
    fn workers(&mut self, value: usize)
    where
        F: ::kitbag::MaySetLaunch,
    {
        self.edit.set::<usize>(self.offset + 0usize, value);
    }
    ///Sets `pool.queue`.
    fn queue(&mut self, value: usize)
    where
        F: ::kitbag::MaySetHot,
    {
        self.edit.set::<usize>(self.offset + 1usize, value);
    }
}
#[doc(hidden)]
struct ArgsBags {
    pool: ::std::sync::Arc<PoolBag>,
}
#[automatically_derived]
impl ::kitbag::__private::Bags for ArgsBags {
    fn build(
        values: &[::kitbag::__private::Erased],
        previous: ::core::option::Option<(&Self, &[::kitbag::__private::Erased])>,
    ) -> Self {
        Self {
            pool: ::kitbag::__private::rebuild::<
                PoolBag,
            >(values, 0usize, previous.map(|(bags, old)| (&bags.pool, old))),
        }
    }
    fn read(&self, index: usize) -> ::core::option::Option<::kitbag::__private::Erased> {
        let offset = 0usize;
        if (offset..offset + <PoolBag as ::kitbag::Bag>::LEN).contains(&index) {
            return ::kitbag::Bag::read(&*self.pool, index - offset);
        }
        ::core::option::Option::None
    }
}
///One pinned epoch of a `Context<Args>`, as role `R` sees it.
#[allow(dead_code)]
struct ArgsPin<R = ::kitbag::Everything> {
    pinned: ::kitbag::Pinned<Args>,
    role: ::core::marker::PhantomData<fn() -> R>,
}
#[automatically_derived]
#[allow(dead_code)]
impl<R: ::kitbag::Role> ArgsPin<R> {
    ///Namespace `pool`.
    #[inline]
    #[must_use]
    fn pool(&self) -> &PoolBag
    where
        R: ::kitbag::MayRead<PoolBag>,
    {
        &self.pinned.bags().pool
    }
}
#[automatically_derived]
impl<R> ::core::convert::From<::kitbag::Pinned<Args>> for ArgsPin<R> {
    fn from(pinned: ::kitbag::Pinned<Args>) -> Self {
        Self {
            pinned,
            role: ::core::marker::PhantomData,
        }
    }
}
#[automatically_derived]
impl<R> ::core::ops::Deref for ArgsPin<R> {
    type Target = ::kitbag::Pinned<Args>;
    fn deref(&self) -> &::kitbag::Pinned<Args> {
        &self.pinned
    }
}
#[automatically_derived]
impl<R> ::core::clone::Clone for ArgsPin<R> {
    fn clone(&self) -> Self {
        Self {
            pinned: ::core::clone::Clone::clone(&self.pinned),
            role: ::core::marker::PhantomData,
        }
    }
}
///Setters of schema `Args` in a change of form `F`.
#[allow(dead_code)]
struct ArgsSetters<F> {
    edit: ::kitbag::__private::Edit,
    form: ::core::marker::PhantomData<F>,
}
#[automatically_derived]
#[allow(dead_code)]
impl<F> ArgsSetters<F> {
    ///Setters of namespace `pool`.
    fn pool(&mut self) -> PoolSetters<'_, F> {
        PoolSetters::at(&mut *(&mut self.edit), 0usize)
    }
}
#[automatically_derived]
impl<F> ::core::convert::From<::kitbag::__private::Edit> for ArgsSetters<F> {
    fn from(edit: ::kitbag::__private::Edit) -> Self {
        Self {
            edit,
            form: ::core::marker::PhantomData,
        }
    }
}
#[automatically_derived]
impl<F> ::core::convert::From<ArgsSetters<F>> for ::kitbag::__private::Edit {
    fn from(setters: ArgsSetters<F>) -> Self {
        setters.edit
    }
}
///Typed keys of schema `Args`.
#[allow(dead_code)]
struct ArgsKeys {
    ///Keys of `pool`.
    pool: PoolKeys<Args>,
}
///One pinned epoch of a `Context<Args>` under a recorder.
#[allow(dead_code)]
struct ArgsRecording {
    pinned: ::kitbag::Pinned<Args>,
    reads: ::kitbag::__private::Reads,
}
#[automatically_derived]
#[allow(dead_code)]
impl ArgsRecording {
    ///Namespace `pool`.
    #[must_use]
    fn pool(&self) -> PoolRecording<'_> {
        PoolRecording::at(&*self.pinned.bags().pool, &self.reads, 0usize)
    }
}
#[automatically_derived]
impl ::core::convert::From<::kitbag::Pinned<Args>> for ArgsRecording {
    fn from(pinned: ::kitbag::Pinned<Args>) -> Self {
        Self {
            pinned,
            reads: ::core::default::Default::default(),
        }
    }
}
#[automatically_derived]
impl ::kitbag::Recording<Args> for ArgsRecording {
    fn parts(&self) -> (&::kitbag::Pinned<Args>, &::kitbag::__private::Reads) {
        (&self.pinned, &self.reads)
    }
}
#[automatically_derived]
impl ::kitbag::ConfigNamespaces for Args {
    const SCHEMA: ::kitbag::NamespaceInfo = ::kitbag::NamespaceInfo {
        path: "",
        doc: "Thumbnail service.",
        own_struct: true,
        leaves: &[],
        replaced: &[],
        retired: &[],
        validations: &[],
        children: &[<PoolBag as ::kitbag::Bag>::INFO],
    };
    const ENV_PREFIX: ::core::option::Option<&'static str> = ::core::option::Option::Some(
        "THUMB",
    );
    type Bags = ArgsBags;
    type Pin<R: ::kitbag::Role> = ArgsPin<R>;
    type Setters<F> = ArgsSetters<F>;
    type Keys = ArgsKeys;
    type Recording = ArgsRecording;
    #[inline(never)]
    fn schema() -> &'static ::kitbag::NamespaceInfo {
        &<Self as ::kitbag::ConfigNamespaces>::SCHEMA
    }
    fn keys() -> ArgsKeys {
        ArgsKeys {
            pool: PoolKeys::at(0usize),
        }
    }
    fn touch(&self) {
        let _ = &self.workers;
        let _ = &self.queue;
    }
}
const _: () = {
    const INFO: ::kitbag::NamespaceInfo = <Args as ::kitbag::ConfigNamespaces>::SCHEMA;
    const FOUND: ::kitbag::__private::Message = ::kitbag::__private::whole_schema::<
        { 2 * INFO.len() + 1 },
    >(&INFO, <Args as ::kitbag::ConfigNamespaces>::ENV_PREFIX);
    if let ::core::option::Option::Some(text) = FOUND.text() {
        ::core::panic!("{}", text);
    }
};
#[cfg(test)]
#[automatically_derived]
#[allow(non_snake_case)]
#[test]
fn derived_values_of_args_equal_their_functions() {
    ::kitbag::__private::check_derived_values::<Args>();
}
