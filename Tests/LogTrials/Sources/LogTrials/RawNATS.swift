#if NATS
  import CNATSRaw
  import Foundation

  /// Raw libnats, on a stream of its own, for comparison.
  // SAFETY: libnats' functions may be called from any thread, and the pointers live as long as this object.
  @safe final class RawNATS: @unchecked Sendable {
    private let connection: OpaquePointer
    private let jetStream: OpaquePointer
    private let arrivals = Arrivals()

    private final class Arrivals: @unchecked Sendable {
      let condition = NSCondition()
      var count = 0

      func add() {
        condition.withLock {
          count += 1
          condition.signal()
        }
      }

      func wait(for goal: Int) { condition.withLock { while count < goal { condition.wait() } } }
    }

    init(_ urls: [String]) throws {
      var made: OpaquePointer?
      var connection: OpaquePointer?
      var jetStream: OpaquePointer?
      // SAFETY: the results are checked, and the options are not used after this.
      unsafe natsOptions_Create(&made)
      unsafe natsOptions_SetURL(made, urls[0])
      unsafe natsOptions_SetSendAsap(made, true)
      let status = unsafe natsConnection_Connect(&connection, made)
      unsafe natsOptions_Destroy(made)
      guard status == NATS_OK, let connection = unsafe connection,
        unsafe natsConnection_JetStream(&jetStream, connection, nil) == NATS_OK, let jetStream = unsafe jetStream
      else { throw Cluster.Problem(text: "no connection to \(urls[0])") }
      unsafe self.connection = connection
      unsafe self.jetStream = jetStream
    }

    deinit {
      // SAFETY: nothing else holds the pointers. A message that is being delivered counts in `arrivals`, which stays.
      unsafe jsCtx_Destroy(jetStream)
      unsafe natsConnection_Destroy(connection)
    }

    /// Creates a stream like the logs', with three replicas.
    func makeStream(_ name: String) {
      var configuration = unsafe jsStreamConfig()
      var error = jsErrCode(0)
      // SAFETY: strings and the list live within their closures, and the library copies them.
      unsafe jsStreamConfig_Init(&configuration)
      _ = unsafe name.withCString { name in
        unsafe "\(String(cString: name)).*".withCString { subject in
          var subjects: [UnsafePointer<CChar>?] = unsafe [subject]
          return unsafe subjects.withUnsafeMutableBufferPointer { subjects in
            unsafe configuration.Name = name
            unsafe configuration.Subjects = subjects.baseAddress
            unsafe configuration.SubjectsLen = 1
            unsafe configuration.Replicas = 3
            unsafe configuration.Storage = js_FileStorage
            return unsafe js_AddStream(nil, jetStream, &configuration, nil, &error)
          }
        }
      }
    }

    /// Follows a subject, and only counts its messages.
    func follow(_ subject: String, of stream: String) throws {
      var options = unsafe jsSubOptions()
      var subscription: OpaquePointer?
      var error = jsErrCode(0)
      // SAFETY: strings live within their closures. The retained context lives as long as the process.
      let context = unsafe Unmanaged.passRetained(arrivals).toOpaque()
      unsafe jsSubOptions_Init(&options)
      unsafe options.Ordered = true
      unsafe options.Config.DeliverPolicy = js_DeliverAll
      let status = unsafe stream.withCString { stream in
        unsafe options.Stream = stream
        return unsafe js_Subscribe(
          &subscription, jetStream, subject,
          { _, _, message, context in
            guard let context = unsafe context else { return }
            unsafe Unmanaged<Arrivals>.fromOpaque(context).takeUnretainedValue().add()
            unsafe natsMsg_Destroy(message)
          }, context, nil, &options, &error)
      }
      guard status == NATS_OK else { throw Cluster.Problem(text: "cannot follow \(subject)") }
      unsafe natsSubscription_SetPendingLimits(subscription, -1, -1)
    }

    func wait(for count: Int) { arrivals.wait(for: count) }
    var count: Int { arrivals.condition.withLock { arrivals.count } }

    /// Publishes a message, and waits until it arrives.
    func publishAndWait(_ subject: String, _ bytes: [UInt8]) {
      let goal = count + 1
      publish(subject, bytes)
      arrivals.wait(for: goal)
    }

    /// Publishes without waiting. `finish` waits for the acknowledgements.
    func publish(_ subject: String, _ bytes: [UInt8]) {
      // SAFETY: the bytes are copied within the call.
      _ = unsafe bytes.withUnsafeBytes {
        unsafe js_PublishAsync(jetStream, subject, $0.baseAddress, Int32($0.count), nil)
      }
    }

    func finish() {
      // SAFETY: no pointer is kept.
      _ = unsafe js_PublishAsyncComplete(jetStream, nil)
    }
  }
#endif
