// swift-tools-version: 6.2
import PackageDescription

// Puredux itself has no dependencies. These libraries have: take the folder into your own repository, or depend on it
// by its path in a checkout.
let package = Package(
  name: "Integrations",
  platforms: [.macOS(.v15)],
  products: [
    .library(name: "PureduxLogging", targets: ["PureduxLogging"]),
    .library(name: "PureduxMetrics", targets: ["PureduxMetrics"]),
    .library(name: "PureduxTracing", targets: ["PureduxTracing"]),
    .library(name: "PureduxServices", targets: ["PureduxServices"]),
  ],
  dependencies: [
    .package(name: "Puredux", path: "../.."),
    .package(url: "https://github.com/apple/swift-log.git", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics.git", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.7.3"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
  ],
  targets: [
    .target(
      name: "PureduxLogging",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"), .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "Logging", package: "swift-log"),
      ]),
    .target(
      name: "PureduxMetrics",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"), .product(name: "Metrics", package: "swift-metrics"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ]),
    .target(
      name: "PureduxTracing",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"),
        .product(name: "Tracing", package: "swift-distributed-tracing"),
      ]),
    .target(
      name: "PureduxServices",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"), .product(name: "PureduxDirectory", package: "Puredux"),
        .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ]),
    .testTarget(
      name: "IntegrationTests",
      dependencies: [
        "PureduxLogging", "PureduxMetrics", "PureduxTracing", "PureduxServices",
        .product(name: "PureduxDirectory", package: "Puredux"),
        .product(name: "PureduxTesting", package: "Puredux"),
        .product(name: "PureduxLogTesting", package: "Puredux"),
        .product(name: "InMemoryLogging", package: "swift-log"),
        .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
        .product(name: "MetricsTestKit", package: "swift-metrics"),
        .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
