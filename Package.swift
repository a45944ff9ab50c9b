// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "Puredux",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "Puredux", targets: ["Puredux"])
  ],
  targets: [
    .target(name: "Puredux", swiftSettings: [.strictMemorySafety()]),
    .testTarget(
      name: "PureduxTests", dependencies: ["Puredux"], swiftSettings: [.strictMemorySafety()]),
    // A module of its own, as it takes long to optimize.
    .testTarget(
      name: "IsolationTests", dependencies: ["Puredux"], swiftSettings: [.strictMemorySafety()]),
  ],
  swiftLanguageModes: [.v6]
)
