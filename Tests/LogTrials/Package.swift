// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "LogTrials",
  platforms: [.macOS(.v15)],
  products: [.executable(name: "log-trials", targets: ["LogTrials"])],
  traits: [
    .trait(name: "NATS", description: "The trials on a cluster of NATS servers."),
    .trait(name: "PostgreSQL", description: "The trials on PostgreSQL servers."),
  ],
  dependencies: [
    .package(
      name: "Puredux", path: "../..",
      traits: [
        .trait(name: "NATS", condition: .when(traits: ["NATS"])),
        .trait(name: "PostgreSQL", condition: .when(traits: ["PostgreSQL"])),
      ])
  ],
  targets: [
    // Records and judges the history of a trial. Independent of Puredux.
    .target(name: "Histories", swiftSettings: [.strictMemorySafety()]),
    .testTarget(name: "HistoriesTests", dependencies: ["Histories"], swiftSettings: [.strictMemorySafety()]),
    // Raw libnats, for comparison.
    .systemLibrary(name: "CNATSRaw"),
    // Raw libpq, for comparison.
    .systemLibrary(name: "CPostgreSQLRaw"),
    .executableTarget(
      name: "LogTrials",
      dependencies: [
        "Histories", .product(name: "Puredux", package: "Puredux"), .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "PureduxLogTesting", package: "Puredux"),
        .product(name: "PureduxNATS", package: "Puredux", condition: .when(traits: ["NATS"])),
        .target(name: "CNATSRaw", condition: .when(traits: ["NATS"])),
        .product(name: "PureduxPostgreSQL", package: "Puredux", condition: .when(traits: ["PostgreSQL"])),
        .target(name: "CPostgreSQLRaw", condition: .when(traits: ["PostgreSQL"])),
      ], swiftSettings: [.strictMemorySafety()]),
  ],
  swiftLanguageModes: [.v6]
)
