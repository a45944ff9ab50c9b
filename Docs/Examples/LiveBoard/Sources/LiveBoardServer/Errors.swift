import Foundation
import Hummingbird
import Logging
import Puredux
import PureduxLog

/// Answers every error with JSON: `{"error": {"message": …}}`.
struct JSONErrors<Context: RequestContext>: RouterMiddleware {
  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    do {
      return try await next(request, context)
    } catch {
      return try answer(to: error, logger: context.logger).response(from: request, context: context)
    }
  }

  private func answer(to error: any Error, logger: Logger) -> HTTPError {
    switch error {
    case let error as HTTPError:
      return HTTPError(error.status, headers: error.headers, message: error.body ?? error.status.message)
    case let error as any HTTPResponseError:
      return HTTPError(error.status, message: error.status.message)
    case let unknown as Boards.Unknown:
      return HTTPError(.notFound, message: "There is no board \(unknown.id).")
    case let refusal as Board.Refusal: return HTTPError(refusal.status, message: refusal.description)
    case StoreError.stopped(.removed), LogError.removed:
      return HTTPError(.notFound, message: "The board has been deleted.")
    case StoreError.rejected(let reason):
      return HTTPError(.unprocessableContent, message: reason?.description ?? "This is not possible.")
    case StoreError.outcomeUnknown:
      return HTTPError(
        .serviceUnavailable, message: "It is not known whether this was saved. Look at the board before you repeat it.")
    case StoreError.terminated:
      return HTTPError(.serviceUnavailable, message: "The server is shutting down.")
    case is StoreError, is LogError:
      logger.error("\(error)")
      return HTTPError(.serviceUnavailable, message: "The board cannot be opened now. Try again later.")
    default:
      logger.error("\(error)")
      return HTTPError(.internalServerError, message: "Something went wrong.")
    }
  }
}

extension HTTPResponse.Status {
  fileprivate var message: String {
    switch self {
    case .notFound: "There is nothing here."
    case .contentTooLarge: "The body is too large: at most \(BoardContext.largestBody) bytes."
    case .badRequest: "The body cannot be read."
    default: reasonPhrase
    }
  }
}

extension Board.Refusal {
  fileprivate var status: HTTPResponse.Status {
    switch self {
    case .unknownCard: .notFound
    case .unknownColumn, .full, .emptyText, .longText, .longName: .unprocessableContent
    case .longKey: .badRequest
    case .changedSince: .conflict
    case .notYet: .serviceUnavailable
    }
  }
}
