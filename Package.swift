// swift-tools-version: 6.2
import PackageDescription

/// Whether the tests that take long are there, too: the everyday build and run are without them (see
/// Docs/Project/Contributing.md).
let isThorough = Context.environment["PUREDUX_THOROUGH"] != nil

/// One module each: some take long to optimize.
let thorough: [Target] = ["InterleavingTests", "IsolationTests", "LoadTests", "ReentryTests"].map { name in
  .testTarget(
    name: name, dependencies: ["Puredux", "PureduxTesting", "PureduxTestSupport", "PureduxUI"],
    path: "Tests/Thorough/\(name)", swiftSettings: [.strictMemorySafety()])
}

let package = Package(
  name: "Puredux",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "Puredux", targets: ["Puredux"]),
    .library(name: "PureduxDirectory", targets: ["PureduxDirectory"]),
    .library(name: "PureduxUI", targets: ["PureduxUI"]),
    .library(name: "PureduxTesting", targets: ["PureduxTesting"]),
    .library(name: "PureduxLog", targets: ["PureduxLog"]),
    .library(name: "PureduxLogTesting", targets: ["PureduxLogTesting"]),
    .library(name: "PureduxNATS", targets: ["PureduxNATS"]),
    .library(name: "PureduxPostgreSQL", targets: ["PureduxPostgreSQL"]),
    .library(name: "PureduxSimulation", targets: ["PureduxSimulation"]),
  ],
  traits: [
    .trait(name: "NATS", description: "PureduxNATS, which needs libnats on the system."),
    .trait(name: "PostgreSQL", description: "PureduxPostgreSQL, which needs libpq on the system."),
    .trait(name: "Simulation", description: "PureduxSimulation, which needs Swift 6.3 and Linux."),
  ],
  targets: [
    .target(name: "Puredux", swiftSettings: [.strictMemorySafety()]),
    .target(name: "PureduxDirectory", dependencies: ["Puredux"], swiftSettings: [.strictMemorySafety()]),
    .target(name: "PureduxUI", dependencies: ["Puredux"], swiftSettings: [.strictMemorySafety()]),
    // The only library that imports Testing: what depends on the others does not need it.
    .target(name: "PureduxTesting", dependencies: ["Puredux"], swiftSettings: [.strictMemorySafety()]),
    .target(name: "PureduxLog", dependencies: ["Puredux"], swiftSettings: [.strictMemorySafety()]),
    .target(
      name: "PureduxLogTesting", dependencies: ["PureduxDirectory", "PureduxLog"],
      swiftSettings: [.strictMemorySafety()]),
    .systemLibrary(name: "CNATS", providers: [.apt(["libnats-dev"]), .brew(["cnats"])]),
    .target(
      name: "PureduxNATS",
      dependencies: ["PureduxLog", .target(name: "CNATS", condition: .when(traits: ["NATS"]))],
      swiftSettings: [.strictMemorySafety()]),
    .systemLibrary(name: "CPostgreSQL", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
    .target(
      name: "PureduxPostgreSQL",
      dependencies: ["PureduxLog", .target(name: "CPostgreSQL", condition: .when(traits: ["PostgreSQL"]))],
      swiftSettings: [.strictMemorySafety()]),
    // Replaces clocks and random numbers of the executable that it is linked into.
    .target(name: "CSimulation"),
    .target(
      name: "PureduxSimulation",
      dependencies: [
        "Puredux", "PureduxLog", "PureduxLogTesting",
        .target(name: "CSimulation", condition: .when(traits: ["Simulation"])),
      ],
      swiftSettings: [.strictMemorySafety()]),
    // What tests of several modules use.
    .target(
      name: "PureduxTestSupport",
      dependencies: ["Puredux", "PureduxLog", "PureduxLogTesting", "PureduxPostgreSQL", "PureduxTesting"],
      path: "Tests/Support", swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "PureduxTestingTests", dependencies: ["Puredux", "PureduxTesting", "PureduxTestSupport"],
      swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "PureduxLogTests",
      dependencies: ["PureduxLog", "PureduxLogTesting", "PureduxTesting", "PureduxTestSupport"],
      exclude: ["Golden"],
      swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "PureduxNATSTests",
      dependencies: ["PureduxNATS", "PureduxLogTesting", "PureduxTesting", "PureduxTestSupport"],
      swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "PureduxPostgreSQLTests",
      dependencies: [
        "PureduxDirectory", "PureduxPostgreSQL", "PureduxLogTesting", "PureduxTesting", "PureduxTestSupport",
      ],
      exclude: ["Golden"],
      swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "PureduxDirectoryTests",
      dependencies: ["PureduxDirectory", "PureduxLogTesting", "PureduxTestSupport"],
      swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "PureduxUITests", dependencies: ["PureduxUI", "PureduxTestSupport"],
      swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "PureduxTests",
      dependencies: [
        "Puredux", "PureduxDirectory", "PureduxLogTesting", "PureduxTesting", "PureduxTestSupport", "PureduxUI",
      ],
      swiftSettings: [.strictMemorySafety()]),
  ] + (isThorough ? thorough : []),
  swiftLanguageModes: [.v6]
)
