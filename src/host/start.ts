// Starts the server of a runtime. Refuses invalid settings of the app before it loads the app.
import { readConfig, readListenAddress } from '../env.ts'
import type { Runtime } from './serve.ts'

export async function start(runtime: Runtime): Promise<void> {
  try {
    const address = readListenAddress(process.env)
    readConfig(process.env)
    const { serve } = await import('./serve.ts')
    await serve(address, runtime)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exit(1)
  }
}
