// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "Programs",
  platforms: [.macOS(.v15)],
  products: [
    .library(name: "Programs", targets: ["Programs"]),
    .executable(name: "programs", targets: ["ProgramsCommand"]),
  ],
  dependencies: [.package(name: "Puredux", path: "../..")],
  targets: [
    .target(
      name: "Programs",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"), .product(name: "PureduxDirectory", package: "Puredux"),
      ],
      swiftSettings: [.strictMemorySafety()]),
    .executableTarget(
      name: "ProgramsCommand", dependencies: ["Programs"], swiftSettings: [.strictMemorySafety()]),
    .testTarget(name: "ProgramsTests", dependencies: ["Programs"], swiftSettings: [.strictMemorySafety()]),
  ],
  swiftLanguageModes: [.v6]
)
