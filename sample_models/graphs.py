"""The small sample models, from the texts on which this project is based. `make.py` writes them."""

from __future__ import annotations

# by file: the model in ONNX's textual syntax, and the shapes of its weights
GRAPHS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    # OneFlow's automatic NHWC: "x -> conv -> relu -> conv -> relu -> out".
    "conv_relu_conv_relu.onnx": (
        """
        conv_relu_conv_relu (float[1,8,32,32] x) => (float[1,8,32,32] out) {
            conv1 = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
            relu1 = Relu (conv1)
            conv2 = Conv <pads = [1, 1, 1, 1]> (relu1, w2, b2)
            out = Relu (conv2)
        }
        """,
        {"w1": (16, 8, 3, 3), "b1": (16,), "w2": (8, 16, 3, 3), "b2": (8,)},
    ),
    # TVM's ConvertLayout: two convolutions in NHWC, with kernels in TensorFlow's layout, HWIO.
    "tvm_two_convs_nhwc.onnx": (
        """
        tvm_two_convs_nhwc (float[1,56,56,64] x) => (float[1,56,56,32] y) {
            conv1 = workbench.Conv_NHWC_HWIO <pads = [1, 1, 1, 1]> (x, weight1)
            relu1 = Relu (conv1)
            conv2 = workbench.Conv_NHWC_HWIO <pads = [1, 1, 1, 1]> (relu1, weight2)
            y = Relu (conv2)
        }
        """,
        {"weight1": (3, 3, 64, 32), "weight2": (3, 3, 32, 32)},
    ),
    # The NPU's first figure: a value of type CNN, then Tensor, then CNN again.
    "npu_types.onnx": (
        """
        npu_types (float[1,8,14,14] input) => (float[1,16,7,7] output) {
            cnn = Conv <pads = [1, 1, 1, 1]> (input, weight)
            flat = Constant <value_ints = [1, 3136]> ()
            image = Constant <value_ints = [1, 16, 14, 14]> ()
            tensor = Reshape (cnn, flat)
            shares = Softmax <axis = 1> (tensor)
            cnn_again = Reshape (shares, image)
            output = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (cnn_again)
        }
        """,
        {"weight": (16, 8, 3, 3)},
    ),
    # The NPU's record-then-insert: one path of CNN values, with an operator that demands the NPU's layout.
    "npu_path.onnx": (
        """
        npu_path (float[1,8,28,28] input) => (float[1,16,28,28] output) {
            output = Conv <pads = [1, 1, 1, 1]> (input, weight)
        }
        """,
        {"weight": (16, 8, 3, 3)},
    ),
    # The NPU's second case, CNN to Tensor: two Reshapes that must see the same order of elements.
    "npu_reshape_add.onnx": (
        """
        npu_reshape_add (float[1,8,7,7] input1, float[1,512,7,7] input3) => (float[1,25088] output) {
            conv2d = Conv <pads = [1, 1, 1, 1]> (input1, input2)
            flat = Constant <value_ints = [1, 25088]> ()
            reshape1 = Reshape (conv2d, flat)
            reshape2 = Reshape (input3, flat)
            output = Add (reshape1, reshape2)
        }
        """,
        {"input2": (512, 8, 3, 3)},
    ),
    # The same case as in its second to fourth figures: the kernel is an input in HWOI, which ONNX's Conv cannot read.
    "npu_three_inputs.onnx": (
        """
        npu_three_inputs (float[1,8,7,7] input1, float[3,3,16,8] input2, float[1,16,7,7] input3)
        => (float[1,784] output) {
            oihw = Transpose <perm = [2, 3, 0, 1]> (input2)
            conv2d = Conv <pads = [1, 1, 1, 1]> (input1, oihw)
            flat = Constant <value_ints = [1, 784]> ()
            reshape1 = Reshape (conv2d, flat)
            reshape2 = Reshape (input3, flat)
            output = Add (reshape1, reshape2)
        }
        """,
        {},
    ),
    # Buddy-compiler's two figures of NCHW and NHWC: few elements, and one operator that prefers each order.
    "two_orders.onnx": (
        """
        two_orders (float[1,3,2,4] x) => (float[1,2,1,2] y) {
            conv = Conv (x, kernel)
            y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (conv)
        }
        """,
        {"kernel": (2, 3, 1, 1)},
    ),
    # OneFlow's bias_add and dropout: axis 3 of [2,3,4,5], in training, with a seed.
    "bias_add_dropout.onnx": (
        """
        bias_add_dropout (float[2,3,4,5] x, float[5] bias) => (float[2,3,4,5] y) {
            bias_add = Add (x, bias)
            rate = Constant <value_float = 0.5> ()
            training = Constant <value = bool {1}> ()
            y = Dropout <seed = 7> (bias_add, rate, training)
        }
        """,
        {},
    ),
    # Megatron-LM's fusion of a bias and Gelu.
    "fusion/bias_gelu.onnx": (
        """
        bias_gelu (float[2,8,16] x, float[16] bias) => (float[2,8,16] y) {
            sum = Add (x, bias)
            half = Constant <value_float = 0.5> ()
            one = Constant <value_float = 1.0> ()
            root = Constant <value_float = 1.4142135> ()
            scaled = Div (sum, root)
            erf = Erf (scaled)
            shifted = Add (erf, one)
            product = Mul (sum, shifted)
            y = Mul (product, half)
        }
        """,
        {},
    ),
    # Buddy-compiler's plan for fusion, groups that lowering keeps together: Conv and Relu, and Relu's lowering, Max.
    "fusion/conv_and_maximum.onnx": (
        """
        conv_and_maximum (float[1,4,16,16] x) => (float[1,4,16,16] y) {
            zero = Constant <value_float = 0.0> ()
            conv1 = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
            relu = Relu (conv1)
            conv2 = Conv <pads = [1, 1, 1, 1]> (relu, w2, b2)
            y = Max (conv2, zero)
        }
        """,
        {"w1": (4, 4, 3, 3), "b1": (4,), "w2": (4, 4, 3, 3), "b2": (4,)},
    ),
    # Buddy-compiler's figure of operator fusion: a module of ResNet whose 1x1 kernel is enlarged; two kernels remain.
    "fusion/resnet_module.onnx": (
        """
        resnet_module (float[1,4,16,16] x) => (float[1,4,16,16] y) {
            conv1 = Conv <pads = [1, 1, 1, 1]> (x, w1)
            conv2 = Conv <pads = [1, 1, 1, 1]> (conv1, w2)
            shortcut = Conv (x, w3)
            sum = Add (conv2, shortcut)
            y = Relu (sum)
        }
        """,
        {"w1": (4, 4, 3, 3), "w2": (4, 4, 3, 3), "w3": (4, 4, 1, 1)},
    ),
    # Buddy-compiler's figure of combinations that PyTorch fuses: those of torch.ao.quantization.fuse_modules.
    "fusion/fixed_combinations.onnx": (
        """
        fixed_combinations (float[1,4,16,16] x) => (float[1,10] y) {
            conv1 = Conv <pads = [1, 1, 1, 1]> (x, w1)
            norm1 = BatchNormalization (conv1, scale1, shift1, mean1, variance1)
            relu1 = Relu (norm1)
            conv2 = Conv <pads = [1, 1, 1, 1]> (relu1, w2)
            norm2 = BatchNormalization (conv2, scale2, shift2, mean2, variance2)
            conv3 = Conv <pads = [1, 1, 1, 1]> (norm2, w3)
            relu3 = Relu (conv3)
            pool = GlobalAveragePool (relu3)
            flat = Flatten (pool)
            linear = Gemm <transB = 1> (flat, w4, b4)
            y = Relu (linear)
        }
        """,
        {
            **{f"w{place}": (4, 4, 3, 3) for place in (1, 2, 3)},
            **{f"{name}{place}": (4,) for name in ("scale", "shift", "mean", "variance") for place in (1, 2)},
            "w4": (10, 4),
            "b4": (10,),
        },
    ),
    # Buddy-compiler's sentence on enlarging kernels: a 1x1 and a 3x3 kernel on one image.
    "fusion/kernel_of_one_element.onnx": (
        """
        kernel_of_one_element (float[1,8,16,16] x) => (float[1,8,16,16] y) {
            one = Conv (x, w1, b1)
            nine = Conv <pads = [1, 1, 1, 1]> (x, w2, b2)
            y = Concat <axis = 1> (one, nine)
        }
        """,
        {"w1": (3, 8, 1, 1), "b1": (3,), "w2": (5, 8, 3, 3), "b2": (5,)},
    ),
    # Buddy-compiler's figures of memory: a chain in place; the trap, a second reader of B; a buffer that is free for E.
    "memory/in_place.onnx": (
        """
        in_place (float[1024] x) => (float[1024] E) {
            A = Sqrt (x)
            B = Relu (A)
            C = Exp (B)
            E = Neg (C)
        }
        """,
        {},
    ),
    "memory/in_place_trap.onnx": (
        """
        in_place_trap (float[1024] x) => (float[1024] E, float F) {
            A = Sqrt (x)
            B = Relu (A)
            C = Exp (B)
            E = Neg (C)
            F = ReduceSum <keepdims = 0> (B)
        }
        """,
        {},
    ),
    # Buddy-compiler's figure of colouring: B is read twice, and G reads E and F.
    "memory/colouring.onnx": (
        """
        colouring (float[1,1,32,32] A) => (float[1,1,16,16] G) {
            B = Sigmoid (A)
            C = Sigmoid (B)
            E = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (C)
            F = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (B)
            G = Mul (E, F)
        }
        """,
        {},
    ),
    "memory/buffer_reuse.onnx": (
        """
        buffer_reuse (float[1,32] x) => (float[1,16] y) {
            A = MatMul (x, w1)
            B = MatMul (A, w2)
            C = MatMul (B, w3)
            E = MatMul (C, w4)
            y = MatMul (E, w5)
        }
        """,
        {"w1": (32, 64), "w2": (64, 128), "w3": (128, 32), "w4": (32, 96), "w5": (96, 16)},
    ),
    # Fragmentation in Buddy-compiler's pool: the free pieces are too small.
    "memory/fragmentation.onnx": (
        """
        fragmentation (float[1,4] x) => (float[1,192] y) {
            two = MatMul (x, w2)
            one = MatMul (x, w1)
            small = ReduceSum (two)
            three = MatMul (one, w3)
            y = Add (three, small)
        }
        """,
        {"w2": (4, 128), "w1": (4, 64), "w3": (64, 192)},
    ),
    # Buddy-compiler's parallel wall: two branches that could run in parallel if they did not share bytes.
    "memory/branches.onnx": (
        """
        branches (float[64,64] x) => (float[64,64] y) {
            left1 = MatMul (x, w1)
            left2 = MatMul (left1, w2)
            left3 = MatMul (left2, w3)
            right1 = MatMul (x, w4)
            right2 = MatMul (right1, w5)
            right3 = MatMul (right2, w6)
            y = Add (left3, right3)
        }
        """,
        {f"w{place}": (64, 64) for place in range(1, 7)},
    ),
    # Buddy-compiler's three kinds of constant folding, and graphs that only look foldable.
    "folding/constant_operands.onnx": (
        """
        constant_operands (float[2,4] x) => (float[2,4] y) {
            sum = Add (w1, w2)
            scaled = Mul (x, sum)
            noise = RandomUniform <shape = [4], seed = 3.0> ()
            y = Add (scaled, noise)
        }
        """,
        {"w1": (4,), "w2": (4,)},
    ),
    "folding/shape_arithmetic.onnx": (
        """
        shape_arithmetic (float[2,3,4] x) => (float[2,12] y) {
            first = Constant <value_ints = [0]> ()
            rest = Constant <value_ints = [-1]> ()
            shape = Shape (x)
            batch = Gather (shape, first)
            target = Concat <axis = 0> (batch, rest)
            flat = Reshape (x, target)
            y = Relu (flat)
        }
        """,
        {},
    ),
    "folding/batchnorm.onnx": (
        """
        batchnorm (float[1,3,8,8] x) => (float[1,4,8,8] y) {
            conv = Conv <pads = [1, 1, 1, 1]> (x, w)
            norm = BatchNormalization (conv, scale, shift, mean, variance)
            y = Relu (norm)
        }
        """,
        {"w": (4, 3, 3, 3), **dict.fromkeys(("scale", "shift", "mean", "variance"), (4,))},
    ),
    "folding/two_readers.onnx": (
        """
        two_readers (float[1,3,8,8] x) => (float[1,4,8,8] y) {
            conv = Conv <pads = [1, 1, 1, 1]> (x, w)
            norm = BatchNormalization (conv, scale, shift, mean, variance)
            y = Add (norm, conv)
        }
        """,
        {"w": (4, 3, 3, 3), **dict.fromkeys(("scale", "shift", "mean", "variance"), (4,))},
    ),
    # Three rewrites, one for each mode of exactness: bitwise equal, up to rounding, and for ordinary numbers only.
    "folding/neutral_numbers.onnx": (
        """
        neutral_numbers (float[2,4] x) => (float[2,4] y) {
            one = Constant <value_float = 1.0> ()
            zero = Constant <value_float = 0.0> ()
            three = Constant <value_float = 3.0> ()
            tenth = Constant <value_float = 0.1> ()
            same = Mul (x, one)
            plus_zero = Add (same, zero)
            tripled = Mul (plus_zero, three)
            y = Mul (tripled, tenth)
        }
        """,
        {},
    ),
    # Preprocessing and a head that enlarges, on an NPU that runs Resize in NHWC too: layout and type decide together.
    "precision/resize_conv_resize.onnx": (
        """
        resize_conv_resize (float[1,3,40,40] x) => (float[1,4,42,42] y) {
            small = Constant <value_ints = [1, 3, 28, 28]> ()
            large = Constant <value_ints = [1, 4, 42, 42]> ()
            resized = Resize <mode = "linear"> (x, , , small)
            conv1 = Conv <pads = [1, 1, 1, 1]> (resized, w1)
            relu1 = Relu (conv1)
            conv2 = Conv <pads = [1, 1, 1, 1]> (relu1, w2)
            y = Resize <mode = "linear"> (conv2, , , large)
        }
        """,
        {"w1": (8, 3, 3, 3), "w2": (4, 8, 3, 3)},
    ),
}
# by file: layouts of inputs that cannot be inferred from the operators
DECLARED_LAYOUTS = {"npu_three_inputs.onnx": {"input2": "HWOI", "input3": "NCHW"}}
