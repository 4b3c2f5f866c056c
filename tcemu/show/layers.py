"""The layer over a drawing that answers the pointer and the arrow keys: what is under them is framed, and named."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tcemu.show import svg

#: What has a target at all, and what is pointed at; & is the picture.
LOOK = "& .z path{fill:transparent}& .z :is(:hover,.on){stroke:var(--tc-ink);stroke-width:3}"


def target(data: str, title: str, names: str = "") -> str:
    """An outline that says `title`; `names` are its classes."""
    classes = f' class="{names}"' if names else ""
    return f'<path d="{data}"{classes}><title>{escape(title, quote=False)}</title></path>'


def layer(targets: Iterable[str]) -> str:
    """The layer with these targets; empty if there are none."""
    inside = svg.group(targets, "z")
    return f"<style>{LOOK}</style>{inside}" if inside else ""


#: Moves to the nearest cell in the direction of an arrow key, and says what it is. `this` is the picture's box.
KEYS = (
    "var way={ArrowLeft:[-1,0],ArrowRight:[1,0],ArrowUp:[0,-1],ArrowDown:[0,1]}[event.key],box=this;"
    "if(way||event.key=='Escape'){"
    "event.preventDefault();event.stopPropagation();"
    "var all=Array.from(box.querySelectorAll('.z path')),now=box.querySelector('.z .on'),best=now||all[0],least=1e9;"
    "function at(cell){var b=cell.getBBox();return[b.x+b.width/2,b.y+b.height/2]}"
    "if(now&&way)all.forEach(function(cell){var p=at(cell),q=at(now),x=p[0]-q[0],y=p[1]-q[1],"
    "along=x*way[0]+y*way[1],aside=Math.abs(x*way[1])+Math.abs(y*way[0]);"
    "if(along>1&&along+4*aside<least){least=along+4*aside;best=cell}});"
    "if(now)now.classList.remove('on');"
    "var said=box.querySelector('[role=status]');"
    "if(way){best.classList.add('on');said.textContent=best.querySelector('title').textContent;"
    "best.scrollIntoView({block:'nearest',inline:'nearest'})}else said.textContent=''}"
)
