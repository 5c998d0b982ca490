// Rules that a JSON Schema cannot say, or not without a lie, by operation: the fuzzer breaks them unknowingly.

/** Types of faults of every operation: docs/design/validation.md. */
export const UNSAID_EVERYWHERE = new Set([
  'nul_character',
  'lone_surrogate',
  'name_invalid',
  'number_too_large',
  'too_deep',
  'too_many_values',
  // Answers have the same components as objects within a body, and get new members over time.
  'unknown_member',
])

/** Codes that tell of what is stored or configured, of which no schema speaks. */
export const CODES_OF_STATE: Record<string, string> = {
  idempotency_key_reused: 'another request had the key',
  last_admin: 'the workspace would have no administrator',
  last_organization_admin: 'the organization would have no administrator',
  role_built_in: 'the role is one that every organization has',
  feedback_config_differs: 'the key has a configuration already',
  permission_not_in_role: 'the role lacks a permission of the key',
  source_rule: 'the source of the deployment has no such thing',
  model_required: 'the workspace has no model configuration',
  model_budget_spent: 'a budget of the workspace is spent',
  blocked_url: 'the address is judged by its resolution, and by settings of the operator',
}

const OPERATIONS: Record<string, string[]> = {
  'A filter has a grammar of its own.': [
    'changeFilterView',
    'createFilterView',
    'groupRuns',
    'listProjects',
    'listThreadTraces',
    'listTraceRuns',
    'readGroupStats',
  ],
  'A parameter is a JSON object as a text.': [
    'countExamples',
    'countSharedExamples',
    'listDatasets',
    'listDatasetsV2',
    'listExamples',
    'listOnlineEvaluators',
    'listProjectsV2',
    'listSharedExamples',
  ],
  'The body is a form with parts, which the document has as bytes.': [
    'changeUploadedExamples',
    'createRunsFromParts',
    'uploadCsvDataset',
    'uploadExamples',
  ],
  'The body is JSON that is read without a schema, or Protocol Buffers.': [
    'changeExample',
    'changeExamples',
    'createExample',
    'createExamples',
    'exportSpans',
  ],
  'A `dotted_order` repeats the ids and the start of the run.': ['createRun', 'createRuns', 'patchRun'],
  'A public key is a point of P-256.': ['createCredential', 'createModelTokens', 'poll'],
  'A prompt has templates, and a schema of its answer.': ['createOnlineEvaluator'],
  'A grant, a code or a state that this installation gave is needed.': [
    'finishAuthorization',
    'finishAuthorizationByForm',
    'finishInstallation',
    'issueToken',
    'readAuthorizationRequest',
    'redeemDevice',
    'requestDevice',
    'revokeToken',
  ],
  'A place in an earlier answer is needed.': [
    'listAuditLogs',
    'listEvents',
    'listQueueItems',
    'queryRuns',
    'queryRunsV2',
    'queryThreads',
    'queryTraces',
    'readBuildLogs',
    'readDeployLogs',
    'readDeploymentLogs',
    'streamEvents',
    'streamJobLogs',
    'streamLogs',
  ],
  'Parameters exclude or need each other, and the document has no conditions between parameters.': [
    'disconnectAccount',
    'resolveProject',
    'exportUsage',
    'readEvaluatorSpending',
    'readMetrics',
    'readModelUsage',
  ],
  'It depends on the mode and the settings of the installation.': ['createDeployment', 'startInstallation'],
  'It depends on what is stored.': ['addMembership', 'changeModelProxySettings', 'patchDeployment'],
  'The names are those of the operations of the document.': ['exportAuditLogs'],
  'One of several members is needed, so a request needs a body.': ['readRunStats'],
  'Two members are compared with each other.': ['readProjectDashboard'],
  'A host or a URL is judged by the URL parser.': ['connectIntegration', 'registerClient', 'verifyCustomHost'],
  'One member of each item is unique in the list.': ['report', 'storeWorkspaceSecrets'],
  'The pattern of a subject depends on the issuer.': ['changeTrustedIssuer', 'createTrustedIssuer'],
  'A time table has five fields with ranges, and a smallest gap.': ['createInsightConfig'],
  'The messages are those of the protocol, and it demands a header `Accept`.': ['callMcp'],
}

/** The reason, by operation. */
export const UNSAID: Record<string, string> = Object.fromEntries(
  Object.entries(OPERATIONS).flatMap(([reason, names]) => names.map(name => [name, reason])),
)
