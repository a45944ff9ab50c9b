// swift-tools-version: 6.2
import PackageDescription

// Separate from the integrations, because logs and metrics need no web server.
let package = Package(
  name: "Inspector",
  platforms: [.macOS(.v15)],
  products: [
    .library(name: "PureduxInspector", targets: ["PureduxInspector"]),
    .executable(name: "inspector-demo", targets: ["inspector-demo"]),
  ],
  dependencies: [
    .package(name: "Puredux", path: "../.."),
    .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.1"),
    // Hummingbird's dependencies, which this package imports itself.
    .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.2"),
  ],
  targets: [
    .target(
      name: "PureduxInspector",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ], swiftSettings: [.strictMemorySafety()]),
    .executableTarget(
      name: "inspector-demo",
      dependencies: [
        "PureduxInspector",
        .product(name: "Puredux", package: "Puredux"),
        .product(name: "PureduxDirectory", package: "Puredux"),
        .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ], path: "Sources/InspectorDemo", swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "InspectorTests",
      dependencies: [
        "PureduxInspector",
        .product(name: "Puredux", package: "Puredux"),
        .product(name: "PureduxDirectory", package: "Puredux"),
        .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "PureduxLogTesting", package: "Puredux"),
        .product(name: "PureduxTesting", package: "Puredux"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ], swiftSettings: [.strictMemorySafety()]),
  ],
  swiftLanguageModes: [.v6]
)
