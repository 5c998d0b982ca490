// Messages to /mcp, in the protocol of 2026-07-28 and in those of 2025.
import { expect } from 'vitest'
import { type App, getApp } from './app.ts'

export type Era = '2026-07-28' | '2025-11-25' | '2025-06-18' | '2025-03-26'
// biome-ignore lint/suspicious/noExplicitAny: the protocol answers by its schemas
type Json = any
export type McpReply = { status: number; headers: Headers; body: Json; requestId: string }
type Options = { era?: Era; app?: App; headers?: Record<string, string>; capabilities?: object }

const CLIENT = { name: 'test', version: '1' }
const PREFIX = 'io.modelcontextprotocol/'

export async function postMcp(body: unknown, headers: Record<string, string>, app = getApp()): Promise<McpReply> {
  const requestId = `mcp-${crypto.randomUUID()}`
  const common = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
  const init = { method: 'POST', headers: { ...common, 'X-Request-Id': requestId, ...headers } }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await app.fetch(new Request('http://slipway.test/mcp', { ...init, body: text }))
  const answer = await response.text()
  return { status: response.status, headers: response.headers, body: answer && JSON.parse(answer), requestId }
}

/** A client with a key. */
export function connectMcp(key: string, { era = '2026-07-28', app, headers = {}, capabilities = {} }: Options = {}) {
  const isModern = era === '2026-07-28'
  const request = (method: string, params: Record<string, unknown> = {}) => {
    const named = (params.name ?? params.uri) as string | undefined
    const eraHeaders = isModern && { 'Mcp-Method': method, ...(named !== undefined && { 'Mcp-Name': named }) }
    const _meta = {
      [`${PREFIX}protocolVersion`]: era,
      [`${PREFIX}clientInfo`]: CLIENT,
      [`${PREFIX}clientCapabilities`]: capabilities,
    }
    return postMcp(
      { jsonrpc: '2.0', id: 1, method, params: isModern ? { ...params, _meta } : params },
      { Authorization: `Bearer ${key}`, 'MCP-Protocol-Version': era, ...eraHeaders, ...headers },
      app,
    )
  }
  return {
    request,
    /** The result of a tool, in a request that succeeds, and the answer as a whole. */
    async call(name: string, args: Record<string, unknown> = {}, further: Record<string, unknown> = {}) {
      const reply = await request('tools/call', { name, arguments: args, ...further })
      expect(reply.status, JSON.stringify(reply.body)).toBe(200)
      const { result } = reply.body
      return { ...reply, result, data: result?.structuredContent as Json, isError: result?.isError === true }
    },
    async listTools(): Promise<Json[]> {
      return (await request('tools/list')).body.result.tools
    },
  }
}
