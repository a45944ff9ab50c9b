// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "puredux-log",
  platforms: [.macOS(.v15)],
  products: [.executable(name: "puredux-log", targets: ["puredux-log"])],
  traits: [
    .trait(name: "NATS", description: "Logs on a cluster of NATS servers: `nats://…`. Needs libnats."),
    .trait(name: "PostgreSQL", description: "Logs in a PostgreSQL database: `postgresql://…`. Needs libpq."),
  ],
  dependencies: [
    .package(
      name: "Puredux", path: "../../..",
      traits: [
        .trait(name: "NATS", condition: .when(traits: ["NATS"])),
        .trait(name: "PostgreSQL", condition: .when(traits: ["PostgreSQL"])),
      ]),
    .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.2"),
  ],
  targets: [
    .executableTarget(name: "puredux-log", dependencies: ["LogCommands"]),
    .target(
      name: "LogCommands",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"),
        .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "PureduxNATS", package: "Puredux", condition: .when(traits: ["NATS"])),
        .product(name: "PureduxPostgreSQL", package: "Puredux", condition: .when(traits: ["PostgreSQL"])),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ]),
    .testTarget(
      name: "LogCommandsTests",
      dependencies: [
        "LogCommands", .product(name: "Puredux", package: "Puredux"),
        .product(name: "PureduxLog", package: "Puredux"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
