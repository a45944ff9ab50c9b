// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "Benchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "Puredux", path: "../.."),
    .package(url: "https://github.com/ordo-one/benchmark.git", from: "1.38.1", traits: []),
    .package(url: "https://github.com/apple/swift-async-algorithms.git", from: "1.1.4"),
  ],
  targets: [
    .executableTarget(
      name: "Stores",
      dependencies: [
        "AllocationCount",
        .product(name: "Puredux", package: "Puredux"),
        .product(name: "Benchmark", package: "benchmark"),
        .product(name: "AsyncAlgorithms", package: "swift-async-algorithms"),
      ],
      path: "Benchmarks/Stores",
      plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]),
    .target(name: "AllocationCount"),
    .target(name: "Output"),
    .executableTarget(name: "Ratios", dependencies: ["Output"]),
    .executableTarget(
      name: "BothThreads", dependencies: ["Output", .product(name: "Puredux", package: "Puredux")]),
    .executableTarget(
      name: "Devices", dependencies: ["AllocationCount", "Output", .product(name: "Puredux", package: "Puredux")]),
  ],
  swiftLanguageModes: [.v6]
)
