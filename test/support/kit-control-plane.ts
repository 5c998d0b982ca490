// The control plane of the protocol kit, with a database of its own.
import { startControlPlane } from '../proof/kit/control-plane.ts'
import { createMigratedDatabase } from './migrated-postgres.ts'

export const startKitControlPlane = async () => startControlPlane(await createMigratedDatabase())
