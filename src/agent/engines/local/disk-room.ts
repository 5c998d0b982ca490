// The space that the disks of a machine share. Their sizes are not reserved, and may be more than the machine has: when
// little is left, those that take more than their share of it end their copies.
import type { DiskChange, DiskSizes } from './disk-sizes.ts'

type Measured = { deployment_id: string; name: string; sizes: DiskSizes; used_mb: number }

/** A smaller one does not make room. */
const MIN_MB = 64
const MB_PER_GI = 1024

export class DiskRoom {
  readonly #reserve_mb: number
  readonly #measured = new Map<string, Measured>()

  constructor(reserve_mb: number) {
    this.#reserve_mb = reserve_mb
  }

  note(disk: Measured): void {
    this.#measured.set(`${disk.deployment_id}/${disk.name}`, disk)
  }

  /** Once all disks were measured. */
  share(free_mb: number): { deployment_id: string; change: DiskChange }[] {
    const disks = [...this.#measured.values()].filter(({ name, sizes }) => sizes.list().includes(name))
    const shares = disks.map(({ name, sizes, used_mb }) => ({ used_mb, size_mb: sizes.sizeOf(name) * MB_PER_GI }))
    const crowding = chooseCrowding(shares, free_mb, this.#reserve_mb)
    this.#measured.clear()
    return disks.flatMap(({ deployment_id, name, sizes }, i) => {
      const change = sizes.setCrowding(name, crowding[i]!, this.#reserve_mb)
      return change ? [{ deployment_id, change }] : []
    })
  }
}

/** Finds those that take more than their share of what all may have. Pure. */
export function chooseCrowding(
  disks: { used_mb: number; size_mb: number }[],
  free_mb: number,
  reserve_mb: number,
): boolean[] {
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
  const room = Math.max(0, sum(disks.map(({ used_mb }) => used_mb)) + free_mb - reserve_mb)
  const share = Math.min(1, room / Math.max(1, sum(disks.map(({ size_mb }) => size_mb))))
  return disks.map(({ used_mb, size_mb }) => free_mb < reserve_mb && used_mb > Math.max(MIN_MB, size_mb * share))
}

/** The warning for a deployment with disks; null if there is room for the sizes of all. Pure. */
export function describeOvercommitment(all_gi: number, free_mb: number): string | null {
  const free_gi = free_mb / MB_PER_GI
  if (all_gi <= free_gi) return null
  return (
    `The disks of this machine may grow by ${all_gi.toFixed(1)} GiB together, and ${free_gi.toFixed(1)} GiB are ` +
    'free. When little is left, those that take more than their share end their copies. Ask for a smaller ' +
    'storage_gi, or the operator for more space.'
  )
}
