// A tracing project: what it did in short, and its runs.
import type { ScreenProps } from '../screen-props.ts'
import { OverviewCharts } from './overview-charts.tsx'
import { ProjectFrame } from './project-frame.tsx'
import { Runs } from './runs.tsx'

export default function ProjectPage({ workspace, params }: ScreenProps<{ project: string }>) {
  return (
    <ProjectFrame workspace={workspace} id={params.project} tab="">
      {project => (
        <>
          <OverviewCharts workspace={workspace} project={project} />
          <Runs workspace={workspace} project={project} />
        </>
      )}
    </ProjectFrame>
  )
}
