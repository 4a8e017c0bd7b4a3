// tilec inside a C++ program: a convolution with stride 2 and its gradient, each checked against loops.
//
//     c++ -std=c++17 conv.cpp $(pkg-config --cflags --libs tilec) -o conv && ./conv
#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "tilec/tilec.hpp"

namespace {

constexpr int H = 9, W = 11, KH = 3, KW = 3, OH = (H - KH) / 2 + 1, OW = (W - KW) / 2 + 1;

constexpr char text[] = R"(
  function conv(I[H, W], K[KH, KW]) -> (O) {
    O[y, x: (H - KH) / 2 + 1, (W - KW) / 2 + 1] = +(I[2*y + j, 2*x + i] * K[j, i]);
  }
)";

// Whole numbers, so small that every sum of their products is exact.
std::vector<float> numbers(const int rows, const int columns, const int period) {
  std::vector<float> all(static_cast<std::size_t>(rows * columns));
  for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<float>(static_cast<int>(k) % period - period / 2);
  return all;
}

bool agree(const std::string& name, const std::vector<float>& got, const std::vector<float>& wanted) {
  std::cout << name << ": " << got.size() << (got == wanted ? " elements agree\n" : " elements do not agree\n");
  return got == wanted;
}

bool run() {
  const std::vector<float> i = numbers(H, W, 7), k = numbers(KH, KW, 9), cotangent = numbers(OH, OW, 5);
  std::vector<float> o(OH * OW), di(H * W), dk(KH * KW);
  const auto I = tilec::tensor(i.data(), {H, W}), K = tilec::tensor(k.data(), {KH, KW}),
             dO = tilec::tensor(cotangent.data(), {OH, OW});
  const auto O = tilec::tensor(o.data(), {OH, OW}), dI = tilec::tensor(di.data(), {H, W}),
             dK = tilec::tensor(dk.data(), {KH, KW});

  const tilec::Program conv(text);
  const tilec::Kernel kernel = conv.specialize({I, K});      // compiled once, run as often as one likes
  kernel({I, K}, {O});
  conv.gradient({"I", "K"})({I, K, dO}, {dI, dK});           // compiled and run in one call

  std::vector<float> wanted_o(o.size()), wanted_di(di.size()), wanted_dk(dk.size());
  for (int y = 0; y < OH; ++y)
    for (int x = 0; x < OW; ++x)
      for (int j = 0; j < KH; ++j)
        for (int m = 0; m < KW; ++m) {
          const auto at = static_cast<std::size_t>(y * OW + x),
                     pixel = static_cast<std::size_t>((2 * y + j) * W + 2 * x + m),
                     tap = static_cast<std::size_t>(j * KW + m);
          wanted_o[at] += i[pixel] * k[tap];
          wanted_di[pixel] += cotangent[at] * k[tap];
          wanted_dk[tap] += cotangent[at] * i[pixel];
        }
  return agree("O", o, wanted_o) && agree("dI", di, wanted_di) && agree("dK", dk, wanted_dk);
}

}  // namespace

int main() {
  try {
    return run() ? 0 : 1;
  } catch (const tilec::Error& error) {
    std::cerr << error.what();
    return 1;
  }
}
