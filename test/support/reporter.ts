// Ends a run with one plain line for scripts, after the number of tests in each project.
import type { Reporter, TestModule } from 'vitest/node'
import { formatCounts } from '../proof/support/counts.ts'

export default class PlainTotals implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]) {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    const lines: string[] = []
    const passed = new Map<string, number>()
    let outsideErrors = unhandled.length
    for (const module of modules) {
      outsideErrors += module.errors().length
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        count[state]++
        const { name } = module.project
        if (state === 'passed') passed.set(name, (passed.get(name) ?? 0) + 1)
      }
    }
    if (passed.size > 1) for (const [name, tests] of passed) lines.push(`${name}: ${tests} passed`)
    // Errors outside of tests fail the run, so they count as failures.
    if (outsideErrors) lines.push(`errors outside of tests: ${outsideErrors}`)
    const failed = count.failed + outsideErrors
    // The first of these lines is for `npm run proof`, the last one for other scripts.
    lines.push(formatCounts({ passed: count.passed, failed, skipped: count.skipped }))
    lines.push(`${count.passed} passed, ${failed} failed`)
    // After the default reporter's own summary.
    process.once('exit', () => process.stdout.write(`\n${lines.join('\n')}\n`))
  }
}
