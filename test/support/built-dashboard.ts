// Builds the dashboard before the tests that serve it, if its sources have changed: tests must not build side by side.
import { buildDashboard, isBuilt } from '../../scripts/dashboard-build.ts'

export default async function setup(): Promise<void> {
  if (!isBuilt()) await buildDashboard()
}
