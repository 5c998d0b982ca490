// The scenarios of the suite for servers, against /mcp, in the three protocols that clients use most.
import { join } from 'node:path'
import type { Installation } from '../support/two-hosts.ts'
import { startKeyedProxy } from './keyed-proxy.ts'
import { type Check, makeResultsFolder, readResults, runSuite, type Scenario, type Totals } from './suite.ts'

const REVISIONS = ['2025-06-18', '2025-11-25', '2026-07-28']

/** Scenarios that call what only the suite's own example server has, by what they call. */
const NEEDS_EXAMPLE: Record<string, string> = {
  'tools-call-simple-text': 'tool test_simple_text',
  'tools-call-image': 'tool test_image_content: no tool of ours answers with an image',
  'tools-call-audio': 'tool test_audio_content: no tool of ours answers with audio',
  'tools-call-embedded-resource': 'tool test_embedded_resource: our tools link to pages instead',
  'tools-call-mixed-content': 'tool test_multiple_content_types',
  'tools-call-with-logging': 'tool test_tool_with_logging, and the capability logging, which we do not declare',
  'tools-call-error': 'tool test_error_handling; test/connect/mcp asserts errors of our own tools',
  'tools-call-with-progress': 'tool test_tool_with_progress: our tools answer within seconds, without progress',
  'tools-call-sampling': 'tool test_sampling: no tool of ours asks the model of the client',
  'tools-call-elicitation': 'tool test_elicitation: without sessions, a server cannot ask a client of 2025',
  'elicitation-sep1034-defaults': 'tool test_elicitation_sep1034_defaults, as for tools-call-elicitation',
  'elicitation-sep1330-enums': 'tool test_elicitation_sep1330_enums, as for tools-call-elicitation',
  'json-schema-2020-12': 'tool json_schema_2020_12_tool: schemas of our tools have no $ref and no $defs',
  'resources-read-text': 'resource test://static-text; `npm run trial -- mcp` reads ours',
  'resources-read-binary': 'resource test://static-binary: we have no binary ones',
  'resources-templates-read': 'resource test://template/{id}/data; `npm run trial -- mcp` reads ours',
  'prompts-get-simple': 'prompt test_simple_prompt',
  'prompts-get-with-args': 'prompt test_prompt_with_arguments; `npm run trial -- mcp` gets ours',
  'prompts-get-embedded-resource': 'prompt test_prompt_with_embedded_resource',
  'prompts-get-with-image': 'prompt test_prompt_with_image',
  'http-custom-header-server-validation': 'a tool with x-mcp-header: none of our arguments routes requests',
  'input-required-result-basic-elicitation':
    'tool test_input_required_result_elicitation; the trial asks by apply_plan',
  'input-required-result-basic-sampling': 'tool test_input_required_result_sampling: no tool of ours samples',
  'input-required-result-basic-list-roots': 'tool test_input_required_result_list_roots: no tool of ours reads roots',
  'input-required-result-request-state': 'tool test_input_required_result_request_state',
  'input-required-result-multiple-input-requests':
    'tool test_input_required_result_multiple_inputs: we ask one question',
  'input-required-result-multi-round': 'tool test_input_required_result_multi_round: we ask one question',
  'input-required-result-non-tool-request': 'prompt test_input_required_result_prompt: our prompts ask nothing',
  'input-required-result-result-type': 'tool test_input_required_result_elicitation',
  'input-required-result-tampered-state':
    'tool test_input_required_result_tampered_state; test/connect/mcp tampers with ours',
  'input-required-result-capability-check': 'tool test_input_required_result_capabilities',
  'input-required-result-missing-input-response': 'tool test_input_required_result_elicitation',
  'input-required-result-ignore-extra-params': 'tool test_input_required_result_elicitation',
}

/** Scenarios of capabilities that /mcp does not declare. */
const NOT_DECLARED: Record<string, string> = {
  'logging-set-level': 'logging: without sessions there is nowhere to send log messages',
  'resources-subscribe': 'resources.subscribe: without sessions there is nowhere to send changes',
  'resources-unsubscribe': 'resources.subscribe, as for resources-subscribe',
  'server-sse-polling': 'sessions: the scenario resumes the stream of a session',
  'server-sse-multiple-streams': 'sessions: the scenario opens several streams of a session',
}

const needsDiagnosticTool = (name: string) => `the scenario needs the example's tool ${name}`
/** Single checks of scenarios that apply otherwise. */
const EXPLAINED_CHECKS: Record<string, string> = {
  'server-stateless sep-2575-server-rejects-undeclared-capability': needsDiagnosticTool('test_missing_capability'),
  'server-stateless sep-2575-missing-capability-http-400': needsDiagnosticTool('test_missing_capability'),
  'server-stateless sep-2575-http-server-no-independent-requests-on-stream':
    needsDiagnosticTool('test_streaming_elicitation'),
  'server-stateless sep-2575-server-no-log-without-loglevel': needsDiagnosticTool('test_logging_tool'),
}

const explain = (scenario: string, { id }: Check): string | undefined => {
  const example = NEEDS_EXAMPLE[scenario]
  const capability = NOT_DECLARED[scenario]
  if (example) return `needs the example's ${example}`
  return capability ? `needs ${capability}` : EXPLAINED_CHECKS[`${scenario} ${id}`]
}

const isFault = ({ status }: Check) => status === 'FAILURE' || status === 'WARNING'

function report(revision: string, { name, checks }: Scenario, explained: Map<string, string>): Totals {
  const passed = checks.filter(({ status }) => status === 'SUCCESS').length
  const faults = checks.filter(isFault)
  const unexplained = faults.filter(check => explain(name, check) === undefined)
  for (const check of faults.filter(one => !unexplained.includes(one))) {
    const isWhole = name in NEEDS_EXAMPLE || name in NOT_DECLARED
    explained.set(isWhole ? name : `${name} ${check.id}`, explain(name, check)!)
  }
  const mark = unexplained.length > 0 ? '✗' : faults.length > 0 ? '–' : '✓'
  const notApplicable = faults.length - unexplained.length
  console.log(
    `${mark} ${revision} ${name}: ${passed} checks passed, ${unexplained.length} failed, ${notApplicable} do not apply`,
  )
  for (const { id, errorMessage, description } of unexplained) console.log(`    ${id}: ${errorMessage ?? description}`)
  return { passed, failed: unexplained.length }
}

export async function runServerScenarios(cleanup: AsyncDisposableStack, installation: Installation): Promise<Totals> {
  const folder = await makeResultsFolder(cleanup)
  const proxy = await startKeyedProxy(cleanup, installation)
  const totals = { passed: 0, failed: 0 }
  const explained = new Map<string, string>()
  for (const revision of REVISIONS) {
    const results = join(folder, revision)
    const args = ['--url', `${proxy}/mcp`, '--suite', 'all', '--spec-version', revision, '-o', results]
    await runSuite(['server', ...args])
    for (const scenario of await readResults(results, 'server-')) {
      const { passed, failed } = report(revision, scenario, explained)
      totals.passed += passed
      totals.failed += failed
    }
  }
  console.log('\nWhat does not apply, and why:')
  for (const [name, reason] of explained) console.log(`  ${name}: ${reason}`)
  // An explanation that explains nothing any more is wrong.
  const known = [NEEDS_EXAMPLE, NOT_DECLARED, EXPLAINED_CHECKS].flatMap(Object.keys)
  for (const name of known.filter(one => !explained.has(one))) {
    console.log(`✗ ${name} is explained, and passed or did not run`)
    totals.failed++
  }
  return totals
}
