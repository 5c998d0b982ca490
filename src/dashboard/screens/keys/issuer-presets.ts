// Presets for each kind of CI: they make the issuer and the subject of its tokens from names that people know (pure).

const PRESETS = ['github', 'gitlab', 'kubernetes', 'other'] as const
export type Preset = (typeof PRESETS)[number]
/** The fields of the form. Each kind of CI uses some of them. */
export type Answers = Record<'issuer' | 'subject' | 'repository' | 'part' | 'ref' | 'namespace' | 'account', string>

export const GITHUB_ISSUER = 'https://token.actions.githubusercontent.com'
export const NO_ANSWERS: Answers = {
  issuer: '',
  subject: '',
  repository: '',
  part: 'branch',
  ref: 'main',
  namespace: '',
  account: '',
}

export const PARTS = [
  { value: 'branch', label: 'Runs on one branch' },
  { value: 'environment', label: 'Jobs of one environment' },
  { value: 'pull_request', label: 'Runs of pull requests' },
  { value: 'all', label: 'All jobs of the repository' },
]

const githubPart = ({ part, ref }: Answers): string =>
  ({
    branch: `ref:refs/heads/${ref}`,
    environment: `environment:${ref}`,
    pull_request: 'pull_request',
    all: '*',
  })[part] ?? '*'

/** The issuer and the subject that a token must have. */
export function trustedOf(preset: Preset, answers: Answers): { issuer: string; subject: string } {
  const given = Object.fromEntries(Object.entries(answers).map(([name, text]) => [name, text.trim()])) as Answers
  switch (preset) {
    case 'github':
      return { issuer: GITHUB_ISSUER, subject: `repo:${given.repository}:${githubPart(given)}` }
    case 'gitlab':
      return {
        issuer: given.issuer || 'https://gitlab.com',
        subject: `project_path:${given.repository}:ref_type:branch:ref:${given.ref}`,
      }
    case 'kubernetes':
      return { issuer: given.issuer, subject: `system:serviceaccount:${given.namespace}:${given.account}` }
    case 'other':
      return { issuer: given.issuer, subject: given.subject }
  }
}

/** The default name in lists. */
export const nameOf = (preset: Preset, answers: Answers): string => {
  const { subject } = trustedOf(preset, answers)
  return { github: answers.repository, gitlab: answers.repository, kubernetes: subject, other: subject }[preset].slice(
    0,
    128,
  )
}
