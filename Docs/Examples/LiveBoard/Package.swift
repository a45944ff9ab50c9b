// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "LiveBoard",
  platforms: [.macOS(.v15)],
  products: [.executable(name: "LiveBoard", targets: ["LiveBoard"])],
  traits: [
    .trait(name: "NATS", description: "Boards on a cluster of NATS servers: `--log nats://…`. Needs libnats."),
    .trait(name: "PostgreSQL", description: "Boards in a PostgreSQL database: `--log postgresql://…`. Needs libpq."),
  ],
  dependencies: [
    .package(
      name: "Puredux", path: "../../..",
      traits: [
        .trait(name: "NATS", condition: .when(traits: ["NATS"])),
        .trait(name: "PostgreSQL", condition: .when(traits: ["PostgreSQL"])),
      ]),
    .package(path: "../../Integrations"),
    .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.1"),
    .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-log.git", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.2"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    .package(url: "https://github.com/swift-server/async-http-client.git", from: "1.37.0"),
  ],
  targets: [
    .executableTarget(
      name: "LiveBoard",
      dependencies: [
        "LiveBoardServer", "Output", .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ]),
    .target(
      name: "LiveBoardServer",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"),
        .product(name: "PureduxDirectory", package: "Puredux"),
        .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "PureduxLogging", package: "Integrations"),
        .product(name: "PureduxNATS", package: "Puredux", condition: .when(traits: ["NATS"])),
        .product(name: "PureduxPostgreSQL", package: "Puredux", condition: .when(traits: ["PostgreSQL"])),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ]),
    .target(name: "Output"),
    .executableTarget(
      name: "load",
      dependencies: [
        "Output", .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ],
      path: "Sources/LiveBoardLoad"),
    .executableTarget(
      name: "by-hand",
      dependencies: [
        .product(name: "Hummingbird", package: "hummingbird"), .product(name: "NIOCore", package: "swift-nio"),
      ],
      path: "Tests/ByHand"),
    .testTarget(
      name: "LiveBoardTests",
      dependencies: [
        "LiveBoard", "LiveBoardServer", .product(name: "Puredux", package: "Puredux"),
        .product(name: "PureduxDirectory", package: "Puredux"),
        .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "PureduxLogTesting", package: "Puredux"),
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "InMemoryLogging", package: "swift-log"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ],
      exclude: ["Golden"]),
  ],
  swiftLanguageModes: [.v6]
)
