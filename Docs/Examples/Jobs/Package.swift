// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "Jobs",
  platforms: [.macOS(.v15)],
  products: [.executable(name: "jobs", targets: ["jobs"])],
  traits: [
    .trait(name: "NATS", description: "A queue on a cluster of NATS servers: `--log nats://…`. Needs libnats."),
    .trait(name: "Simulation", description: "A simulation of two workers among the tests. Needs Swift 6.3 and Linux."),
  ],
  dependencies: [
    .package(
      name: "Puredux", path: "../../..",
      traits: [
        .trait(name: "NATS", condition: .when(traits: ["NATS"])),
        .trait(name: "Simulation", condition: .when(traits: ["Simulation"])),
      ]),
    .package(name: "Integrations", path: "../../Integrations"),
    .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-log.git", from: "1.16.2"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    .package(url: "https://github.com/swiftlang/swift-subprocess.git", from: "1.0.2"),
  ],
  targets: [
    .target(name: "JobQueue", dependencies: [.product(name: "Puredux", package: "Puredux")]),
    .executableTarget(
      name: "jobs",
      dependencies: [
        "JobQueue", .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "PureduxNATS", package: "Puredux", condition: .when(traits: ["NATS"])),
        .product(name: "PureduxServices", package: "Integrations"),
        .product(name: "PureduxLogging", package: "Integrations"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "Subprocess", package: "swift-subprocess"),
      ]),
    .testTarget(
      name: "JobQueueTests",
      dependencies: [
        "JobQueue", "jobs", .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "PureduxLogTesting", package: "Puredux"),
        .product(name: "PureduxTesting", package: "Puredux"),
        .product(name: "PureduxSimulation", package: "Puredux", condition: .when(traits: ["Simulation"])),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
