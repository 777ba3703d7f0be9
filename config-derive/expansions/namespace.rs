#[doc(hidden)]
#[allow(dead_code, non_upper_case_globals)]
const ExecBag_of_two_schemas__put_each_into_a_module_of_its_own: () = ();
///Namespace `exec` under a recorder: every read is noted.
#[allow(dead_code)]
pub struct ExecRecording<'a> {
    bag: &'a ExecBag,
    reads: &'a ::kitbag::__private::Reads,
    offset: usize,
}
#[automatically_derived]
#[allow(dead_code, deprecated)]
impl<'a> ExecRecording<'a> {
    #[doc(hidden)]
    #[must_use]
    pub fn at(
        bag: &'a ExecBag,
        reads: &'a ::kitbag::__private::Reads,
        offset: usize,
    ) -> Self {
        Self { bag, reads, offset }
    }
    ///Device to run on.
    #[inline]
    #[must_use]
    pub fn device(&self) -> &'a str {
        self.reads.note(self.offset + 0usize);
        self.bag.device()
    }
    ///Kernels.
    #[must_use]
    pub fn kernel(&self) -> <Kernel as ::kitbag::Namespace>::Recording<'a> {
        <Kernel as ::kitbag::Namespace>::recording(
            self.bag.kernel(),
            self.reads,
            self.offset + 1usize,
        )
    }
}
const _: () = {
    #[allow(dead_code)]
    fn __kitbag_defaults() {}
};
///Resolved values of namespace `exec`.
#[allow(dead_code)]
#[derive(::core::fmt::Debug)]
pub struct ExecBag {
    device: String,
    kernel: <Kernel as ::kitbag::Namespace>::Bag,
}
#[automatically_derived]
#[allow(dead_code)]
impl ExecBag {
    ///Device to run on.
    #[inline]
    #[must_use]
    pub fn device(&self) -> &'_ str {
        &self.device
    }
    ///Kernels.
    #[inline]
    #[must_use]
    pub fn kernel(&self) -> &<Kernel as ::kitbag::Namespace>::Bag {
        &self.kernel
    }
}
#[automatically_derived]
#[allow(deprecated, clippy::large_stack_arrays)]
impl ::kitbag::Bag for ExecBag {
    const INFO: ::kitbag::NamespaceInfo = ::kitbag::NamespaceInfo {
        path: "exec",
        doc: "How work runs.",
        own_struct: true,
        leaves: &[
            ::kitbag::LeafInfo {
                name: "device",
                path: "exec.device",
                doc: "Device to run on.",
                type_name: "String",
                class: ::kitbag::Class::LoadTime,
                policy: ::kitbag::Policy::Live,
                flag: "device",
                start: ::kitbag::Start::Default {
                    text: "cpu",
                    make: ::core::option::Option::None,
                },
                range: ::core::option::Option::None,
                env: ::core::option::Option::None,
                aliases: &[],
                deprecated: ::core::option::Option::None,
                cache_key: true,
                resolution_only: false,
                bootstrap: false,
                ops: ::kitbag::__private::LeafOps::of::<String>(),
            },
        ],
        replaced: &[],
        retired: &[],
        validations: &[],
        children: &[<<Kernel as ::kitbag::Namespace>::Bag as ::kitbag::Bag>::INFO],
    };
    fn build(values: &[::kitbag::__private::Erased]) -> Self {
        Self {
            device: <String as ::kitbag::Leaf>::take(values, 0usize),
            kernel: <<Kernel as ::kitbag::Namespace>::Bag as ::kitbag::Bag>::build(
                &values[1usize..],
            ),
        }
    }
    fn read(&self, index: usize) -> ::core::option::Option<::kitbag::__private::Erased> {
        match index {
            _ => {
                let offset = 1usize;
                if (offset..offset
                    + <<Kernel as ::kitbag::Namespace>::Bag as ::kitbag::Bag>::LEN)
                    .contains(&index)
                {
                    return ::kitbag::Bag::read(&self.kernel, index - offset);
                }
                ::core::option::Option::None
            }
        }
    }
}
///Typed keys of namespace `exec` within schema `S`.
#[allow(dead_code)]
pub struct ExecKeys<S> {
    ///Key of `exec.device`.
    pub device: ::kitbag::Key<S, String>,
    ///Keys of `exec.kernel`.
    pub kernel: <Kernel as ::kitbag::Namespace>::Keys<S>,
}
#[automatically_derived]
impl<S> ExecKeys<S> {
    #[doc(hidden)]
    #[must_use]
    pub fn at(offset: usize) -> Self {
        Self {
            device: ::kitbag::Key::new(offset + 0usize),
            kernel: <Kernel as ::kitbag::Namespace>::keys::<S>(offset + 1usize),
        }
    }
}
///Setters of namespace `exec` in a change of form `F`.
#[allow(dead_code)]
pub struct ExecSetters<'a, F> {
    edit: &'a mut ::kitbag::__private::Edit,
    offset: usize,
    form: ::core::marker::PhantomData<F>,
}
#[automatically_derived]
#[allow(dead_code)]
impl<'a, F> ExecSetters<'a, F> {
    #[doc(hidden)]
    pub fn at(edit: &'a mut ::kitbag::__private::Edit, offset: usize) -> Self {
        Self {
            edit,
            offset,
            form: ::core::marker::PhantomData,
        }
    }
    ///Sets `exec.device`.
    pub fn device(&mut self, value: impl ::core::convert::Into<String>)
    where
        F: ::kitbag::MaySetLoadTime,
    {
        self.edit
            .set::<
                String,
            >(self.offset + 0usize, ::core::convert::Into::<String>::into(value));
    }
    ///Setters of namespace `exec.kernel`.
    pub fn kernel(&mut self) -> <Kernel as ::kitbag::Namespace>::Setters<'_, F> {
        <Kernel as ::kitbag::Namespace>::setters::<
            F,
        >(&mut *self.edit, self.offset + 1usize)
    }
}
#[automatically_derived]
impl ::kitbag::Namespace for Exec {
    type Bag = ExecBag;
    type Keys<S> = ExecKeys<S>;
    type Setters<'a, F> = ExecSetters<'a, F>;
    type Recording<'a> = ExecRecording<'a>;
    fn keys<S>(offset: usize) -> ExecKeys<S> {
        ExecKeys::at(offset)
    }
    fn setters<F>(
        edit: &mut ::kitbag::__private::Edit,
        offset: usize,
    ) -> ExecSetters<'_, F> {
        ExecSetters::at(edit, offset)
    }
    fn recording<'a>(
        bag: &'a ExecBag,
        reads: &'a ::kitbag::__private::Reads,
        offset: usize,
    ) -> ExecRecording<'a> {
        ExecRecording::at(bag, reads, offset)
    }
}
const _: () = {
    #[allow(dead_code)]
    fn __kitbag_touch(schema: &Exec) {
        let _ = &schema.device;
        let _ = &schema.kernel;
    }
};
const _: () = {
    const FOUND: ::kitbag::__private::Message = ::kitbag::__private::misplaced(
        "exec",
        "kernel",
        <<Kernel as ::kitbag::Namespace>::Bag as ::kitbag::Bag>::INFO.path,
    );
    if let ::core::option::Option::Some(text) = FOUND.text() {
        ::core::panic!("{}", text);
    }
};
