"""The kind of layout that was chosen for every operator, and the operators that others handle or use."""

# What ONNX Runtime's transpose optimizer moves a Transpose through: its handler_map, in
# onnxruntime/core/optimizer/transpose_optimization/onnx_transpose_optimization.cc, and MaxPool and
# Resize, which execution providers add.
ONNX_RUNTIME = """
    Cast Exp Gelu Identity LeakyRelu Log Reciprocal Relu Sigmoid Sqrt Tanh Abs Not Ceil Floor Neg Erf HardSigmoid Round
    IsInf IsNaN Selu Shrink Sign Softplus Softsign ThresholdedRelu Celu HardSwish Sin Cos Tan Sinh Cosh Asin Acos Atan
    Asinh Acosh Atanh Add Max Min Mul Sub Div And Or Xor Mod PRelu BitShift Equal Greater Less GreaterOrEqual
    LessOrEqual Mean Sum Pow Where Clip CastLike Transpose Concat Split Shape Pad ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare ReduceL1 ReduceL2 ArgMin ArgMax Squeeze
    Unsqueeze Slice Tile Softmax Hardmax LogSoftmax QuantizeLinear DequantizeLinear Reshape MaxPool Resize
"""

# What real models have: those of our corpus, of the onnx package and of our samples, and quantized networks.
REAL_MODELS = """
    Add And ArgMax AveragePool BatchNormalization Cast CastLike Clip Concat Constant ConstantOfShape Conv ConvInteger
    ConvTranspose Cos CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp
    Expand Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater
    GreaterOrEqual GridSample GroupNormalization HardSigmoid HardSwish Identity If InstanceNormalization IsNaN LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop MatMul MatMulInteger Max MaxPool Min Mod Mul Neg
    NonZero Not OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear Range Reciprocal ReduceL2 ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Resize Round ScatterElements ScatterND SequenceAt Shape
    Sigmoid Sign Sin Size Slice Softmax Softplus SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub Sum Tanh Tile TopK
    Transpose Trilu Unsqueeze Where
"""

KINDS = {
    "agnostic": """
        Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike
        Ceil Celu Clip Cos Cosh Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual
        HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or
        PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Size Softplus Softsign Sqrt Sub Sum SwiGLU
        Swish Tan Tanh ThresholdedRelu Where Xor com.microsoft.Gelu com.microsoft.QuickGelu workbench.Silu
    """,
    "remapped": """
        ArgMax ArgMin CenterCropPad Compress Concat CumProd CumSum DequantizeLinear Einsum Expand EyeLike Gather
        GatherElements GatherND Gemm Hardmax LayerNormalization LogSoftmax LpNormalization MatMul MatMulInteger
        MeanVarianceNormalization OneHot Pad QLinearMatMul QuantizeLinear RMSNormalization ReduceL1 ReduceL2
        ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Resize
        ScatterElements Shape Slice Softmax Split Squeeze Tile TopK Transpose Trilu Unsqueeze
        workbench.fused_bias_add_gelu workbench.fused_bias_add_mask_scale
        workbench.MatMulAddRelu workbench.MatMulAddGelu workbench.MatMulAddTanh workbench.MatMulAddSigmoid
        workbench.MatMulAddSilu workbench.GemmRelu workbench.GemmGelu workbench.GemmTanh workbench.GemmSigmoid
        workbench.GemmSilu
        workbench.AddLayerNormalization workbench.AddLayerNormalizationWithSum
        workbench.BiasAddLayerNormalization workbench.BiasAddLayerNormalizationWithSum
        workbench.AddRMSNormalization workbench.AddRMSNormalizationWithSum workbench.BiasAddRMSNormalization
        workbench.BiasAddRMSNormalizationWithSum workbench.SampleNormalization
    """,
    "sensitive": """
        AveragePool BatchNormalization Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool
        GlobalMaxPool GridSample GroupNormalization InstanceNormalization LRN LpPool MaxPool MaxUnpool QLinearConv SpaceToDepth
        workbench.BPA workbench.BPW workbench.bilinear workbench.img2col workbench.maskunpool workbench.mirror
        workbench.rotate workbench.tensornorm workbench.unpool
        workbench.ConvRelu workbench.ConvAddRelu workbench.ConvRelu6 workbench.ConvAddRelu6
        workbench.ConvLeakyRelu workbench.ConvAddLeakyRelu workbench.ConvSigmoid workbench.ConvAddSigmoid
        workbench.ConvHardSigmoid workbench.ConvAddHardSigmoid workbench.ConvHardSwish
        workbench.ConvAddHardSwish workbench.ConvSilu workbench.ConvAddSilu
    """,
    "reshape-like": "Flatten Reshape",
    "barrier": """
        AffineGrid Attention Bernoulli BlackmanWindow CausalConvWithState Col2Im ConcatFromSequence Constant
        ConstantOfShape DFT DeformConv Det GRU HammingWindow HannWindow If LSTM LinearAttention Loop MelWeightMatrix
        NegativeLogLikelihoodLoss NonMaxSuppression NonZero Optional OptionalGetElement OptionalHasElement RNN
        RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range ReverseSequence RoiAlign RotaryEmbedding
        STFT Scan ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
        SequenceMap SoftmaxCrossEntropyLoss SplitToSequence StringNormalizer TensorScatter Unique
        ai.onnx.preview.FlexAttention workbench.random_mask_like
        com.microsoft.Attention com.microsoft.BiasGelu com.microsoft.DequantizeLinear
        com.microsoft.DynamicQuantizeLSTM com.microsoft.DynamicQuantizeMatMul com.microsoft.EmbedLayerNormalization
        com.microsoft.FastGelu com.microsoft.FusedConv com.microsoft.FusedGemm com.microsoft.FusedMatMul
        com.microsoft.GroupQueryAttention com.microsoft.MatMulIntegerToFloat com.microsoft.MatMulNBits
        com.microsoft.MultiHeadAttention com.microsoft.NhwcMaxPool com.microsoft.QAttention com.microsoft.QGemm
        com.microsoft.QLinearAdd com.microsoft.QLinearAveragePool com.microsoft.QLinearConcat
        com.microsoft.QLinearConv com.microsoft.QLinearGlobalAveragePool com.microsoft.QLinearLeakyRelu
        com.microsoft.QLinearMul com.microsoft.QLinearSigmoid com.microsoft.QLinearSoftmax
        com.microsoft.QLinearWhere com.microsoft.QuantizeLinear com.microsoft.RotaryEmbedding
        com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization
        com.microsoft.TransposeMatMul
    """,
}
CHOSEN = {op: kind for kind, operators in KINDS.items() for op in operators.split()}
NEWER = {"Swish", "SwiGLU", "CumProd", "BitCast"}  # than the opset to which models are brought
