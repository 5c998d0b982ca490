// What is scheduled for traces: partitions for the days to come, and the deletion of what has expired.
import type { Services } from '../../kernel/routes.ts'

export async function expire(_services: Services): Promise<void> {}
