// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "Rooms", platforms: [.macOS(.v15)],
  dependencies: [
    .package(url: "<where you found this repository>", branch: "main", traits: ["NATS"])
  ],
  targets: [
    .executableTarget(
      name: "Rooms",
      dependencies: [
        .product(name: "Puredux", package: "<its last path component>"),
        .product(name: "PureduxDirectory", package: "<its last path component>"),
        .product(name: "PureduxLog", package: "<its last path component>"),
        .product(name: "PureduxNATS", package: "<its last path component>"),
      ]),
    .testTarget(
      name: "RoomsTests",
      dependencies: [
        "Rooms",
        .product(name: "PureduxTesting", package: "<its last path component>"),
      ]),
  ])
