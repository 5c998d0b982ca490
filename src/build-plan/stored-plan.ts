// A plan as it is stored with a revision and sent. Pure.
import { BuildPlan } from '../protocol/build-plan.schema.ts'
import type { BuildPlan as Plan } from './build-plan.ts'

export const MAX_PLAN_BYTES = 32 * 1024

/** Null for a plan that hostile files have made too large. */
export function toStoredPlan(plan: Plan): BuildPlan | null {
  const text = JSON.stringify(plan).replaceAll('\\u0000', '').toWellFormed()
  if (new TextEncoder().encode(text).byteLength > MAX_PLAN_BYTES) return null
  return BuildPlan.safeParse(JSON.parse(text)).data ?? null
}
