// Convolutions of float32, channels last, and what is behind them, for shapes on which a library's call is slow.
//
// Each output pixel is a sum over taps, the elements of the window. A table has, for each pixel and tap, where the
// input's channels begin, or -1 in the padding: strides, dilations and pads are in the table alone. A tile of pixels and
// of vectors of output channels is kept in registers. One pixel and tap a row make a product of matrices of it.
//
// Source: M. Dukhan, "The Indirect Convolution Algorithm", 2019, arXiv:1907.02129.

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

using std::int64_t;

#ifdef __AVX512F__
constexpr int LANES = 16, REGISTERS = 32;
#else
constexpr int LANES = 8, REGISTERS = 16;
#endif

typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));

enum Activation { NONE, CLAMP, LEAKY_RELU, HARD_SIGMOID, HARD_SWISH };

// The fields are those of convolutions.py.
struct Convolution {
    int64_t pixels, taps;               // of the output, of the window
    int64_t channels, outputs, groups;  // channels and outputs of one group
    int64_t step;                       // between two channels of a pixel of the input
    int64_t vectors;                    // of a panel; 0: each channel is its own group, all of which are one here
    int64_t threads;
    int64_t activation;
    float first, second;    // bounds of CLAMP, slope of LEAKY_RELU, slope and summand of the others
    const int32_t *table;   // [pixels, taps]; not of a depthwise one
    const float *weight;    // [groups, panels, taps, channels, vectors * LANES], without the channels if depthwise
    const float *bias;      // [groups, panels, vectors * LANES]
    const float *zeros;     // for all channels of a pixel in the padding
    const int32_t *order;   // where in the pixel each output is written; null: in their order
    // Of a depthwise one: the images, their height and width and those of the window, columns of the output.
    int64_t batch, sizes[2], kernel[2], strides[2], dilations[2], begins[2], columns;
};

static inline Vector load(const float *from) {
    Vector value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// The first `count` elements; the others are not touched, and are 0 in what is read.
#ifdef __AVX512F__
static inline Vector load_some(const float *from, int64_t count) {
    return count >= LANES ? load(from) : Vector(_mm512_maskz_loadu_ps((1u << count) - 1, from));
}

static inline void store_some(float *to, Vector value, int64_t count) {
    if (count >= LANES)
        std::memcpy(to, &value, sizeof value);
    else
        _mm512_mask_storeu_ps(to, (1u << count) - 1, __m512(value));
}
#else
static inline Vector load_some(const float *from, int64_t count) {
    if (count >= LANES) return load(from);
    Vector value = {};
    for (int64_t i = 0; i < count; i++) value[i] = from[i];
    return value;
}

static inline void store_some(float *to, Vector value, int64_t count) {
    if (count >= LANES)
        std::memcpy(to, &value, sizeof value);
    else
        for (int64_t i = 0; i < count; i++) to[i] = value[i];
}
#endif

static inline Vector splat(float value) { return value - Vector{}; }

static inline Vector clamp(Vector x, float low, float high) {  // NaN stays
    x = x < splat(low) ? splat(low) : x;
    return x > splat(high) ? splat(high) : x;
}

static inline Vector activate(Vector x, const Convolution &c) {
    switch (c.activation) {
        case CLAMP: return clamp(x, c.first, c.second);
        case LEAKY_RELU: return x < Vector{} ? x * c.first : x;
        case HARD_SIGMOID: return clamp(x * c.first + c.second, 0.0f, 1.0f);
        case HARD_SWISH: return x * clamp(x * c.first + c.second, 0.0f, 1.0f);
        default: return x;
    }
}

// Of one pixel, the outputs from `channel` on.
static inline void finish(const Convolution &c, Vector sum, const float *other, float *y, int64_t channel,
                          int64_t count) {
    if (other) sum += load_some(other + channel, count);
    sum = activate(sum, c);
    if (!c.order) return store_some(y + channel, sum, count);
    for (int64_t i = 0; i < std::min<int64_t>(count, LANES); i++) y[c.order[channel + i]] = sum[i];
}

template <int ROWS, int VECTORS>
static void tile(const Convolution &c, const float *x, const float *other, float *y, int64_t width, int64_t first,
                 int64_t panel) {
    constexpr int64_t wide = VECTORS * LANES;
    const int64_t panels = (c.outputs + wide - 1) / wide, group = panel / panels, column = panel % panels * wide;
    const float *weight = c.weight + panel * c.taps * c.channels * wide;
    Vector sum[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECTORS; v++) sum[r][v] = load(c.bias + panel * wide + v * LANES);
    for (int64_t tap = 0; tap < c.taps; tap++) {
        const float *from[ROWS];
        for (int r = 0; r < ROWS; r++) {  // a row beyond the last pixel computes that one again
            const int64_t place = c.table[std::min(first + r, c.pixels - 1) * c.taps + tap];
            from[r] = (place < 0 ? c.zeros : x + place) + group * c.channels * c.step;
        }
        for (int64_t k = 0; k < c.channels * c.step; k += c.step)
            for (int v = 0; v < VECTORS; v++, weight += LANES) {
                const Vector w = load(weight);
                for (int r = 0; r < ROWS; r++) sum[r][v] += from[r][k] * w;
            }
    }
    const int64_t rows = std::min<int64_t>(ROWS, c.pixels - first), all = c.groups * c.outputs;
    for (int64_t r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            const int64_t channel = group * c.outputs + column + v * LANES, left = c.outputs - column - v * LANES;
            const float *summand = other ? other + (first + r) * all : nullptr;
            if (left > 0) finish(c, sum[r][v], summand, y + (first + r) * width, channel, left);
        }
}

template <int VECTORS>
static void in_tiles(const Convolution &c, const float *x, const float *other, float *y, int64_t width) {
    // Beside the sums a row of the panel's weights is in registers, and one element of the input.
    constexpr int ROWS = std::min((REGISTERS - VECTORS - 1) / VECTORS, 12);
    constexpr int64_t wide = VECTORS * LANES;
    const int64_t panels = (c.outputs + wide - 1) / wide * c.groups, tiles = (c.pixels + ROWS - 1) / ROWS;
    // Pixel by pixel while the second level of the cache holds all weights: no two threads write into one line of it.
    const bool by_pixel = c.order || panels * c.taps * c.channels * wide * int64_t(sizeof(float)) <= 1 << 18;
#pragma omp parallel for num_threads(c.threads) schedule(static) if (c.threads > 1)
    for (int64_t i = 0; i < panels * tiles; i++) {
        if (by_pixel)
            tile<ROWS, VECTORS>(c, x, other, y, width, i / panels * ROWS, i % panels);
        else
            tile<ROWS, VECTORS>(c, x, other, y, width, i % tiles * ROWS, i / tiles);
    }
}

// PIXELS of one row, all of whose windows are within the image's width if they are more than one.
template <int PIXELS, int VECTORS>
static inline void depthwise_pixels(const Convolution &c, const float *image, const float *other, float *y,
                                    int64_t width, int64_t row, int64_t column, int64_t channel, int64_t count) {
    const int64_t padded = (c.channels + LANES - 1) / LANES * LANES;
    Vector sum[PIXELS][VECTORS];
    for (int p = 0; p < PIXELS; p++)
        for (int v = 0; v < VECTORS; v++) sum[p][v] = load(c.bias + channel + v * LANES);
    for (int64_t i = 0; i < c.kernel[0]; i++) {
        const int64_t from_row = row * c.strides[0] + i * c.dilations[0] - c.begins[0];
        if (from_row < 0 || from_row >= c.sizes[0]) continue;
        for (int64_t j = 0; j < c.kernel[1]; j++) {
            const int64_t from_column = column * c.strides[1] + j * c.dilations[1] - c.begins[1];
            if (PIXELS == 1 && (from_column < 0 || from_column >= c.sizes[1])) continue;
            const float *from = image + (from_row * c.sizes[1] + from_column) * c.channels + channel;
            const float *weight = c.weight + (i * c.kernel[1] + j) * padded + channel;
            for (int v = 0; v < VECTORS; v++) {
                const Vector w = load(weight + v * LANES);
                for (int p = 0; p < PIXELS; p++)
                    sum[p][v] += load_some(from + p * c.strides[1] * c.channels + v * LANES, count) * w;
            }
        }
    }
    for (int p = 0; p < PIXELS; p++)
        for (int v = 0; v < VECTORS; v++) {
            const float *summand = other ? other + p * c.channels : nullptr;
            finish(c, sum[p][v], summand, y + p * width, channel + v * LANES, count);
        }
}

template <int VECTORS>
static void depthwise_row(const Convolution &c, const float *image, const float *other, float *y, int64_t width,
                          int64_t row, int64_t channel, int64_t count) {
    constexpr int FEW = 2, MANY = 6;
    for (int64_t column = 0; column < c.columns;) {
        const int64_t first = column * c.strides[1] - c.begins[1];
        const int64_t room = c.sizes[1] - (c.kernel[1] - 1) * c.dilations[1] - 1 - first;  // of further pixels
        const float *summand = other ? other + column * c.channels : nullptr;
        float *to = y + column * width;
        if (first >= 0 && room >= (MANY - 1) * c.strides[1]) {
            depthwise_pixels<MANY, VECTORS>(c, image, summand, to, width, row, column, channel, count);
            column += MANY;
        } else if (first >= 0 && room >= (FEW - 1) * c.strides[1]) {
            depthwise_pixels<FEW, VECTORS>(c, image, summand, to, width, row, column, channel, count);
            column += FEW;
        } else {
            depthwise_pixels<1, VECTORS>(c, image, summand, to, width, row, column, channel, count);
            column += 1;
        }
    }
}

static void depthwise(const Convolution &c, const float *x, const float *other, float *y, int64_t width) {
    constexpr int64_t BLOCK = 2 * LANES;
    const int64_t blocks = (c.channels + BLOCK - 1) / BLOCK, rows = c.pixels / c.columns, rows_of_image = rows / c.batch;
#pragma omp parallel for num_threads(c.threads) schedule(static) if (c.threads > 1)
    for (int64_t i = 0; i < rows * blocks; i++) {
        const int64_t row = i / blocks, channel = i % blocks * BLOCK, count = c.channels - channel;
        const float *image = x + row / rows_of_image * c.sizes[0] * c.sizes[1] * c.channels;
        const float *summand = other ? other + row * c.columns * c.channels : nullptr;
        float *to = y + row * c.columns * width;
        if (count >= BLOCK)
            depthwise_row<2>(c, image, summand, to, width, row % rows_of_image, channel, LANES);
        else
            for (int64_t done = 0; done < count; done += LANES)
                depthwise_row<1>(c, image, summand, to, width, row % rows_of_image, channel + done, count - done);
    }
}

extern "C" int64_t lanes() { return LANES; }

// x: [batch, ..., channels], or with the channels in front where they have a step. other: null, or [pixels, outputs],
// which is added before the activation. y: the first of [pixels, width], of which the outputs are written.
extern "C" void convolve(const Convolution *c, const float *x, const float *other, float *y, int64_t width) {
    if (c->pixels == 0) return;
    switch (c->vectors) {
        case 0: return depthwise(*c, x, other, y, width);
        case 1: return in_tiles<1>(*c, x, other, y, width);
        case 2: return in_tiles<2>(*c, x, other, y, width);
        case 3: return in_tiles<3>(*c, x, other, y, width);
        default: return in_tiles<4>(*c, x, other, y, width);
    }
}
