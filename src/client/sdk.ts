// The exports of the npm package `@slipway/client`, besides the types of the routes.
export {
  type Answer,
  type CallHeaders,
  type CallOptions,
  type Client,
  type ClientOptions,
  createClient,
  type Item,
  type ListRoute,
  type Plan,
  type PlannedRoute,
  type RawRequest,
  type Reply,
  type Route,
  type StreamControls,
  type StreamItem,
  type StreamRoute,
} from './client.ts'
export { ApiError, ConnectionError, type Fault } from './errors.ts'
export type { StreamEvent, StreamState } from './event-stream.ts'
export type { RetryPolicy } from './retry.ts'
export {
  type ReceivedWebhook,
  verifyWebhook,
  WebhookError,
  type WebhookEvent,
  type WebhookHeaders,
  type WebhookMessage,
} from './verify-webhook.ts'
