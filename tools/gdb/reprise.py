"""How gdb prints what Reprise has: `source reprise.py`, in gdb or in ~/.gdbinit.

    (gdb) print x
    $1 = Tensor f32 (2, 3) cpu requires_grad [1, 2, 3, 4, 5, 6]
    (gdb) print net
    $2 = reprise::nn::Linear = {weight = Tensor f32 (3, 2) ..., bias = Tensor f32 (3) ...}

Values are shown of tensors on the CPU. The program needs debug information: -g, and for modules and `requires_grad`, where the
library has none of its own, g++'s -femit-class-debug-always.
"""

import struct

import gdb
import gdb.printing

MOST_VALUES = 8
# {DType's enumerator: bytes, how Python unpacks one}; bf16 is the upper half of an f32
FORMATS = {"f64": (8, "<d"), "f32": (4, "<f"), "bf16": (2, None), "f16": (2, "<e"), "i64": (8, "<q"), "i32": (4, "<i"),
           "u8": (1, "<B"), "boolean": (1, "<?")}
DTYPES = list(FORMATS)


def enumerator(value, names):
    number = int(value)
    return names[number] if number < len(names) else f"({number})"


def dims(value):
    return [int(value["values_"]["_M_elems"][i]) for i in range(int(value["size_"]))]


def in_parentheses(sizes):
    return "(" + ", ".join(map(str, sizes)) + (",)" if len(sizes) == 1 else ")")


def device(value):
    return "cpu" if int(value["type"]) == 0 else f"cuda:{int(value['index'])}"


def vector(value):
    first, last = value["_M_impl"]["_M_start"], value["_M_impl"]["_M_finish"]
    for i in range(int(last - first)):
        yield first[i]


def text(value):
    return value["_M_dataplus"]["_M_p"].string(length=int(value["_M_string_length"]))


class Printed:
    def __init__(self, value):
        self.value = value


class DTypePrinter(Printed):
    def to_string(self):
        return enumerator(self.value, DTYPES)


class DevicePrinter(Printed):
    def to_string(self):
        return device(self.value)


class DimsPrinter(Printed):
    def to_string(self):
        return in_parentheses(dims(self.value))


class TensorPrinter(Printed):
    def to_string(self):
        impl = self.value["impl_"]["_M_ptr"]
        if not impl:
            return "Tensor undefined"
        view = impl["view"]
        dtype, shape, where = enumerator(view["dtype"], DTYPES), dims(view["shape"]), device(view["device"])
        parts = ["Tensor", dtype, in_parentheses(shape), where] + self.place_in_graph(impl["autograd"]["_M_ptr"])
        if where == "cpu":
            parts.append(self.elements(view, dtype, shape))
        return " ".join(parts)

    @staticmethod
    def place_in_graph(slot):
        try:
            meta = slot.cast(gdb.lookup_type("reprise::autograd::AutogradMeta").pointer())
        except gdb.error:  # the program says nothing of it
            return []
        if not slot:
            return []
        return ["grad_fn"] if meta["grad_fn"]["_M_ptr"] else ["requires_grad"] if meta["requires_grad"] else []

    @staticmethod
    def elements(view, dtype, shape):
        count = 1
        for size in shape:
            count *= size
        if count and not view["data"]:
            return "[no data]"
        strides, (width, form) = dims(view["strides"]), FORMATS[dtype]
        memory, shown = gdb.selected_inferior(), []
        for i in range(min(count, MOST_VALUES)):
            place = 0
            for size, stride in zip(reversed(shape), reversed(strides)):
                place, i = place + i % size * stride, i // size
            data = bytes(memory.read_memory(int(view["data"]) + place * width, width))
            number = struct.unpack(form or "<f", data if form else b"\0\0" + data)[0]
            shown.append(f"{number:.6g}" if isinstance(number, float) else str(number).lower())
        return "[" + ", ".join(shown) + (", ...]" if count > MOST_VALUES else "]")


class ModulePrinter(Printed):
    """Its parameters, buffers and modules by their names; what else the class has: `print /r`."""

    def __init__(self, value, module):
        super().__init__(value)
        self.module = module

    def to_string(self):
        return str(self.value.dynamic_type.unqualified())

    def children(self):
        for kind in ("parameters_", "buffers_"):
            for entry in vector(self.module[kind]):
                yield text(entry["first"]), entry["second"]
        for entry in vector(self.module["children_"]):
            child = entry["second"]
            yield text(entry["first"]), child.cast(child.dynamic_type).dereference()


def module_of(value):
    """The part of a value that is its nn::Module; None if it is no module, or if the program does not say what one holds."""
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_STRUCT:
        return None
    fields = kind.fields()
    if str(kind.unqualified()) == "reprise::nn::Module":
        return value if any(field.name == "children_" for field in fields) else None
    return next((part for field in fields if field.is_base_class and (part := module_of(value[field])) is not None), None)


class Printers(gdb.printing.PrettyPrinter):
    KINDS = {"reprise::Tensor": TensorPrinter, "reprise::Dims": DimsPrinter, "reprise::DType": DTypePrinter,
             "reprise::Device": DevicePrinter}

    def __call__(self, value):
        kind = value.type.strip_typedefs().unqualified()
        if kind.code == gdb.TYPE_CODE_REF:
            kind = kind.target().strip_typedefs().unqualified()
            value = value.referenced_value()
        printer = self.KINDS.get(str(kind))
        if printer:
            return printer(value)
        module = module_of(value)
        return None if module is None else ModulePrinter(value, module)


gdb.printing.register_pretty_printer(None, Printers("reprise"), replace=True)
