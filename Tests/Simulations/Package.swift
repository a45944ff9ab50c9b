// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "Simulations",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "Puredux", path: "../..", traits: ["Simulation"]), .package(name: "Programs", path: "../Programs"),
  ],
  targets: [
    .testTarget(
      name: "SimulationsTests",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"), .product(name: "PureduxLog", package: "Puredux"),
        .product(name: "PureduxSimulation", package: "Puredux"), .product(name: "Programs", package: "Programs"),
      ],
      swiftSettings: [.strictMemorySafety()])
  ],
  swiftLanguageModes: [.v6]
)
