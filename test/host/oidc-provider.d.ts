declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'
  export class Provider {
    constructor(issuer: string, configuration: Record<string, unknown>)
    callback(): (request: IncomingMessage, response: ServerResponse) => void
    Client: { find(id: string): Promise<unknown> }
    AccessToken: { find(token: string): Promise<unknown> }
  }
}
