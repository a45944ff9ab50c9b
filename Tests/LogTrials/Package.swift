// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "LogTrials",
  platforms: [.macOS(.v15)],
  products: [.executable(name: "log-trials", targets: ["LogTrials"])],
  dependencies: [.package(name: "Puredux", path: "../..")],
  targets: [
    .executableTarget(
      name: "LogTrials",
      dependencies: [
        .product(name: "Puredux", package: "Puredux"), .product(name: "PureduxLog", package: "Puredux"),
      ], swiftSettings: [.strictMemorySafety()])
  ],
  swiftLanguageModes: [.v6]
)
