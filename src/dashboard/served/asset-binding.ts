// The files of the dashboard on Workers, where Cloudflare stores them with the Worker.
import type { BuiltFiles } from '../../platform.ts'

export type AssetBinding = { fetch(url: string): Promise<Response> }

export const createBoundFiles = (assets: AssetBinding): BuiltFiles => ({
  async get(path) {
    const response = await assets.fetch(`https://assets.invalid/ui/${path}`)
    if (response.ok) return new Response(response.body, response)
    await response.body?.cancel()
    return null
  },
})
