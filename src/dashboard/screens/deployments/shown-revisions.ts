// The newest revisions, which the pages of a deployment show.
import type { Deployment, Revision } from '../../format/state.ts'

export const SHOWN_REVISIONS = 10

/** One that serves, or that is the latest, was built as graphs. */
export const servesGraphs = (
  { active_revision_id, latest_revision_id }: Pick<Deployment, 'active_revision_id' | 'latest_revision_id'>,
  revisions: Pick<Revision, 'id' | 'build_plan'>[],
): boolean =>
  revisions.some(
    ({ id, build_plan }) => (id === active_revision_id || id === latest_revision_id) && build_plan?.kind === 'graphs',
  )
