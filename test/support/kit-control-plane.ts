// The control plane of the protocol kit, with a database of its own.
import { startControlPlane, startDatabase } from '../../protocol-kit/control-plane.ts'
import { copyPostgresTemplate } from './migrated-postgres.ts'

export async function startKitControlPlane() {
  const database = await startDatabase(copyPostgresTemplate)
  const plane = await startControlPlane(database.url)
  const stop = async () => {
    await plane.stop()
    await database.stop()
  }
  return { ...plane, stop }
}
