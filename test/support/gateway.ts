// A gateway with connections of its own, and a `fetchFunction` of Neon's driver that goes to it over HTTP.
import { openPools, type PoolOptions } from '../../src/host/database-pools.ts'
import { createGateway } from '../../src/host/gateway.ts'

export type OpenGateway = ReturnType<typeof openGateway>

export function openGateway({ token, ...options }: PoolOptions & { token?: string }) {
  const pools = openPools(options)
  const gateway = createGateway(pools, token)
  let address: Promise<{ url: string }> | undefined
  const listen = () => (address ??= gateway.listen())
  return {
    ...gateway,
    ...pools,
    listen,
    fetch: async (_url: string, init: RequestInit) => fetch((await listen()).url, init),
    async close() {
      await gateway.close()
      await pools.close()
    },
  }
}
