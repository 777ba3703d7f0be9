::core::compile_error! {
    "Unknown field: `defalt`. Did you mean `default`?"
}
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
    ///Jobs that may wait.
    #[inline]
    #[must_use]
    fn queue(&self) -> ::kitbag::Hot<'a, usize> {
        self.reads.note(self.offset + 0usize);
        self.bag.queue()
    }
}
const _: () = {
    #[allow(dead_code)]
    fn __kitbag_defaults() {}
};
///Resolved values of namespace `pool`.
#[allow(dead_code)]
#[derive(::core::fmt::Debug)]
struct PoolBag {
    queue: usize,
}
#[automatically_derived]
#[allow(dead_code)]
impl PoolBag {
    ///Jobs that may wait.
    #[inline]
    #[must_use]
    fn queue(&self) -> ::kitbag::Hot<'_, usize> {
        ::kitbag::Hot::new(&self.queue)
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
                name: "queue",
                path: "pool.queue",
                doc: "Jobs that may wait.",
                type_name: "usize",
                class: ::kitbag::Class::Hot,
                policy: ::kitbag::Policy::Live,
                flag: "queue",
                start: ::kitbag::Start::Required,
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
            queue: <usize as ::kitbag::Leaf>::take(values, 0usize),
        }
    }
    fn read(&self, index: usize) -> ::core::option::Option<::kitbag::__private::Erased> {
        match index {
            _ => ::core::option::Option::None,
        }
    }
}
///Typed keys of namespace `pool` within schema `S`.
#[allow(dead_code)]
struct PoolKeys<S> {
    ///Key of `pool.queue`.
    queue: ::kitbag::Key<S, usize>,
}
#[automatically_derived]
impl<S> PoolKeys<S> {
    #[doc(hidden)]
    #[must_use]
    fn at(offset: usize) -> Self {
        Self {
            queue: ::kitbag::Key::new(offset + 0usize),
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
    ///Sets `pool.queue`.
    fn queue(&mut self, value: usize)
    where
        F: ::kitbag::MaySetHot,
    {
        self.edit.set::<usize>(self.offset + 0usize, value);
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
        doc: "",
        own_struct: true,
        leaves: &[],
        replaced: &[],
        retired: &[],
        validations: &[],
        children: &[<PoolBag as ::kitbag::Bag>::INFO],
    };
    const ENV_PREFIX: ::core::option::Option<&'static str> = ::core::option::Option::None;
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
        let _ = &self.queue;
    }
}
