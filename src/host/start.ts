// `npm start`: refuses invalid settings at once, before it loads the app.
import { readConfig, readListenAddress } from '../env.ts'

try {
  const address = readListenAddress(process.env)
  readConfig(process.env)
  const { serve } = await import('./node.ts')
  await serve(address)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}
