// One view of an explorable: its frame, theme and styles. The explorable draws into it once its content has arrived.

import { fill, h } from "../lib/dom.ts";
import { hideStored } from "../lib/stored.ts";
import { addStyles } from "../lib/styles.ts";
import { followTheme } from "../lib/theme.ts";
import type * as messages from "../messages.ts";
import { loading } from "../panes/states.ts";
import type { Synced } from "../state/synced.ts";
import { meshBenchView } from "./meshbench.ts";
import { playerView } from "./player.ts";
import { raceView } from "./race.ts";
import { shardingGameView } from "./shardinggame.ts";
import "../styles/explorables.css";

type Kind = Exclude<messages.Explorable, "">;

/** Draws an explorable into an element. The returned function is called at every later message. */
type Maker = (synced: Synced, element: HTMLElement) => (() => void) | null;

const MAKERS: Record<Kind, Maker> = {
  player: playerView,
  mesh_bench: meshBenchView,
  race: raceView,
  sharding_game: shardingGameView,
};

export class ExplorableView {
  private readonly root = h("div", { class: "insp insp-explorable", role: "region" });
  private readonly ends: (() => void)[];
  private receive: (() => void) | null = null;
  private stored: string | null = null;

  constructor(
    private readonly synced: Synced,
    private readonly kind: Kind,
    host: HTMLElement,
  ) {
    host.append(this.root);
    addStyles(host);
    this.ends = [
      followTheme(this.root),
      synced.signal.on([kind, "session", "notebook_kernel", "player_run", "mesh_run", "judged"], () => this.draw()),
    ];
    fill(this.root, loading("Waiting for the notebook kernel", null));
    this.draw();
  }

  destroy(): void {
    this.ends.forEach((end) => end());
    this.root.remove();
  }

  private draw(): void {
    const { session } = this.synced;
    if (session && this.stored === null) {
      this.stored = session.stored_class;
      this.root.setAttribute("aria-label", session.name);
      if (!this.synced.isRecorded) this.ends.push(hideStored(session.stored_class));
    }
    if (this.receive) return this.receive();
    if (!session || !this.synced.latest(this.kind)) return;
    fill(this.root);
    this.receive = MAKERS[this.kind](this.synced, this.root);
  }
}
