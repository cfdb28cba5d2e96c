"""The stories of the embedded word problems: each draws its numbers, does the work, and tells the question."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from agent_envs.data.story import Story

Tale: TypeAlias = Callable[[Story], str]


def change(story: Story) -> str:
    """Two purchases, and the change of a note."""
    who, note = story.person(), story.number(50, 100, 50)
    first, second = story.number(2, 9), story.number(2, 9)
    pen, book = story.price(1, 4), story.price(2, 6)
    age = story.number(21, 64)
    pens = story.step("The pens cost {} dollars.", f"{first}*{pen}")
    books = story.step("The notebooks cost {} dollars.", f"{second}*{book}")
    total = story.step("Together that is {} dollars.", f"{pens}+{books}")
    story.step(f"So {who} gets back {{}} dollars.", f"{note}-{total}")
    return (
        f"{who}, who is {age}, buys {first} pens at ${pen} each and {second} notebooks at ${book} each, and pays with "
        f"a ${note} note. {story.one_of('How many dollars of change does', 'How much change, in dollars, does')} "
        f"{who} get?"
    )


def wages(story: Story) -> str:
    """A week's pay with overtime at a higher rate."""
    who = story.person()
    hours, days, rate, extra = story.number(5, 8), story.number(3, 6), story.number(10, 28, 2), story.number(2, 9)
    usual = story.step(f"{who} works {{}} hours at the usual rate.", f"{hours}*{days}")
    base = story.step("They bring {} dollars.", f"{usual}*{rate}")
    more = story.step("An hour of overtime pays {} dollars.", f"{rate}*1.5")
    bonus = story.step("The overtime brings {} dollars.", f"{extra}*{more}")
    story.step("The week brings {} dollars.", f"{base}+{bonus}")
    return (
        f"{who} works {hours} hours a day on {days} days of the week for ${rate} an hour, and then {extra} hours of "
        f"overtime, which are paid one and a half times as much. How many dollars does {who} earn in that week?"
    )


def sale(story: Story) -> str:
    """A discount in percent, then delivery."""
    who, item = story.person(), story.one_of("lamp", "coat", "bicycle", "desk", "radio")
    price, percent, delivery = story.number(40, 400, 20), story.number(5, 45, 5), story.number(4, 15)
    shop_age = story.number(3, 30)
    off = story.step("The discount is {} dollars.", f"{price}*{percent}/100")
    left = story.step(f"The {item} costs {{}} dollars after it.", f"{price}-{off}")
    story.step("With delivery that is {} dollars.", f"{left}+{delivery}")
    return (
        f"A shop that opened {shop_age} years ago takes {percent}% off a {item} that used to cost ${price}. Delivery "
        f"costs ${delivery}. How many dollars does {who} pay for the {item}, delivered?"
    )


def journey(story: Story) -> str:
    """Two legs of a trip, and what is left of it."""
    who = story.person()
    fast, slow = story.number(60, 110, 10), story.number(20, 55, 5)
    first, second = story.number(2, 5), story.number(1, 4)
    road = story.step("On the motorway the distance is {} km.", f"{fast}*{first}")
    lane = story.step("On the country road it is {} km.", f"{slow}*{second}")
    done = story.step("So far that makes {} km.", f"{road}+{lane}")
    whole = int(done) + story.number(15, 160, 5)
    story.step("There are {} km left.", f"{whole}-{done}")
    return (
        f"{who} sets out on a trip of {whole} km: {first} hours on the motorway at {fast} km per hour, then {second} "
        f"{'hour' if second == 1 else 'hours'} on a country road at {slow} km per hour. How many km are "
        f"left after that?"
    )


def bakery(story: Story) -> str:
    """Trays of rolls, some sold, the rest packed."""
    who, box = story.person(), story.number(4, 9)
    trays, boxes = story.number(6, 16), story.number(5, 20)
    rolls = story.number(12, 30)
    story.require(trays * rolls - box * boxes > 20)
    sold = trays * rolls - box * boxes
    hour = story.number(4, 6)
    baked = story.step(f"{who} bakes {{}} rolls.", f"{trays}*{rolls}")
    left = story.step("There are {} rolls left to pack.", f"{baked}-{sold}")
    story.step("They fill {} boxes.", f"{left}/{box}")
    return (
        f"{who} starts at {hour} in the morning and bakes {trays} trays of {rolls} rolls. By noon {sold} rolls are "
        f"sold, and the others go into boxes of {box}. How many boxes are filled?"
    )


def ages(story: Story) -> str:
    """Two ages tied to each other, some years on."""
    old, young = story.people()
    age, times, gap = story.number(6, 15), story.number(2, 4), story.number(2, 9)
    years = story.number(3, 12)
    parent = story.step(f"{old} is {{}} years old.", f"{age}*{times}+{gap}")
    both = story.step("Together they are {} years old now.", f"{parent}+{age}")
    more = story.step("Both together get {} years older.", f"2*{years}")
    story.step(f"In {years} years the sum is {{}}.", f"{both}+{more}")
    return (
        f"{young} is {age} years old. {old} is {gap} years older than {times} times {young}'s age. What will be the "
        f"sum of their ages in {years} years?"
    )


def savings(story: Story) -> str:
    """Weekly saving towards something with a price."""
    who, goal = story.person(), story.one_of("a guitar", "a tent", "a camera", "a telescope")
    job, pocket, spent = story.number(8, 30), story.number(4, 12), story.number(2, 9)
    weeks, start = story.number(4, 20), story.number(10, 60, 5)
    weekly = job + pocket - spent
    price = start + weeks * weekly
    income = story.step(f"{who} gets {{}} dollars a week.", f"{job}+{pocket}")
    saved = story.step("Of these {} dollars are put aside.", f"{income}-{spent}")
    missing = story.step("There are {} dollars to go.", f"{price}-{start}")
    story.step("That takes {} weeks.", f"{missing}/{saved}")
    return (
        f"{who} wants {goal} for ${price} and has ${start} so far. Every week {who} earns ${job} by a small job, gets "
        f"${pocket} of pocket money, and spends ${spent}. After how many weeks is there enough money?"
    )


def recipe(story: Story) -> str:
    """A recipe for another number of people, and what it costs."""
    who, food = story.person(), story.one_of("rice", "flour", "lentils", "pasta")
    few, many = story.number(2, 6), story.number(8, 30)
    grams, price = story.number(60, 140, 10), story.price(1, 5)
    whole = few * grams
    oven = story.number(160, 220, 10)
    each = story.step("One person needs {} g.", f"{whole}/{few}")
    total = story.step(f"{many} people need {{}} g.", f"{many}*{each}")
    kilos = story.step("That is {} kg.", f"{total}/1000")
    story.step("It costs {} dollars.", f"{kilos}*{price}")
    return (
        f"A recipe for {few} people takes {whole} g of {food} and an oven at {oven} degrees. {who} cooks it for {many} "
        f"people. A kilogram of {food} costs ${price}. How many dollars does that much {food} cost?"
    )


def fence(story: Story) -> str:
    """A fence around a garden, but for the gate."""
    who = story.person()
    long, wide, gate = story.number(12, 40), story.number(5, 20), story.number(1, 4)
    price, trees = story.price(6, 19), story.number(2, 9)
    around = story.step("Around the garden it is {} m.", f"2*({long}+{wide})")
    fenced = story.step("Without the gate that is {} m.", f"{around}-{gate}")
    story.step("The fence costs {} dollars.", f"{fenced}*{price}")
    return (
        f"{who}'s garden with its {trees} trees is a rectangle of {long} m by {wide} m. A fence goes all around it, "
        f"except for a gate {gate} m wide. A metre of fence costs ${price}. How many dollars does the fence cost?"
    )


def school(story: Story) -> str:
    """Shares of a school in percent."""
    pupils, percent, part = story.number(80, 600, 20), story.number(10, 60, 5), story.number(10, 50, 10)
    teachers = story.number(11, 39)
    walk = story.step("On foot come {} pupils.", f"{pupils}*{percent}/100")
    rest = story.step("The others are {} pupils.", f"{pupils}-{walk}")
    bus = story.step("By bus come {} pupils.", f"{rest}*{part}/100")
    cycle = story.step("By bicycle come {} pupils.", f"{rest}-{bus}")
    story.require(all("." not in count for count in (walk, bus, cycle)))
    return (
        f"A school has {pupils} pupils and {teachers} teachers. {percent}% of the pupils come on foot, {part}% of the "
        f"others by bus, and the rest by bicycle. How many pupils come by bicycle?"
    )


def reading(story: Story) -> str:
    """A book read at one pace, then at another."""
    who = story.person()
    first, days, then, more = story.number(8, 25), story.number(3, 9), story.number(20, 45), story.number(2, 9)
    pages = first * days + then * more
    other = story.number(100, 300)
    read = story.step(f"{who} has read {{}} pages.", f"{first}*{days}")
    left = story.step("There are {} pages left.", f"{pages}-{read}")
    rest = story.step("They take {} more days.", f"{left}/{then}")
    story.step("In all that is {} days.", f"{days}+{rest}")
    return (
        f"{who} reads a book of {pages} pages, which is on a shelf with {other} others: {first} pages a day for the "
        f"first {days} days, then {then} pages a day. How many days does the whole book take?"
    )


def hens(story: Story) -> str:
    """Eggs of a week, some kept, the rest sold by the dozen."""
    who, hens_kept, dozens = story.person(), story.number(6, 30, 2), story.number(3, 12)
    price, goats = story.price(2, 6), story.number(2, 9)
    laid = 7 * hens_kept
    story.require(laid > 12 * dozens)
    eggs = story.step("In a week there are {} eggs.", f"{hens_kept}*7")
    sold = story.step("For sale there are {} eggs.", f"{eggs}-{laid - 12 * dozens}")
    count = story.step("They make {} dozen.", f"{sold}/12")
    story.step(f"{who} takes in {{}} dollars.", f"{count}*{price}")
    return (
        f"{who} has {goats} goats and {hens_kept} hens, and each hen lays an egg a day. In a week {who}'s family eats "
        f"{laid - 12 * dozens} of the eggs and sells the rest at ${price} a dozen. How many dollars does a week's sale "
        f"bring?"
    )


def taxi(story: Story) -> str:
    """A fare by distance, shared by friends."""
    who = story.person()
    base, rate, distance = story.number(2, 6), story.price(1, 3), story.number(6, 40, 2)
    tip, riders = story.number(5, 20, 5), story.number(2, 5)
    ride = story.step("The distance costs {} dollars.", f"{distance}*{rate}")
    fare = story.step("With the base fare that is {} dollars.", f"{ride}+{base}")
    extra = story.step("The tip is {} dollars.", f"{fare}*{tip}/100")
    total = story.step("Together they pay {} dollars.", f"{fare}+{extra}")
    story.step("Each pays {} dollars.", f"{total}/{riders}")
    return (
        f"A taxi costs ${base} to start with and ${rate} per km. {who} and friends, {riders} people in all, ride "
        f"{distance} km, give a tip of {tip}% on the fare, and share the cost equally. How many dollars does each pay?"
    )


def films(story: Story) -> str:
    """A long evening, in minutes."""
    who, count, pause = story.person(), story.number(2, 5), story.number(5, 20, 5)
    hours, minutes = story.number(1, 2), story.number(5, 55, 5)
    seats = story.number(40, 200, 10)
    each = story.step("One film lasts {} minutes.", f"{hours}*60+{minutes}")
    watched = story.step("All films last {} minutes.", f"{count}*{each}")
    pauses = story.step("The breaks last {} minutes.", f"({count}-1)*{pause}")
    story.step("The whole evening lasts {} minutes.", f"{watched}+{pauses}")
    return (
        f"A cinema with {seats} seats shows {count} films one after the other. Each lasts {hours} "
        f"{'hour' if hours == 1 else 'hours'} and {minutes} minutes, and between two films there is a break of {pause} "
        f"minutes. How many minutes does {who} spend there from the first minute of the first film to the last minute "
        f"of the last?"
    )


def marbles(story: Story) -> str:
    """Three counts tied to each other, shared out again."""
    first, second = story.people()
    own, times, fewer = story.number(12, 40), story.number(2, 4), story.number(3, 10)
    friends = story.number(2, 8)
    theirs = story.step(f"{second} has {{}} marbles.", f"{own}*{times}-{fewer}")
    both = story.step("Together they have {} marbles.", f"{own}+{theirs}")
    share = story.step("Each child gets {} marbles.", f"{both}/{friends}")
    story.require("." not in share)
    return (
        f"{first} has {own} marbles, and {second} has {fewer} fewer than {times} times as many. They put all of them "
        f"into one bag and share them equally among {friends} children. How many marbles does each child get?"
    )


def fuel(story: Story) -> str:
    """Fuel for a distance, at a price per litre, there and back."""
    who, distance = story.person(), story.number(50, 450, 50)
    litres, price, seats = story.number(4, 9), story.price(1, 3), story.number(4, 7)
    both = story.step("There and back it is {} km.", f"2*{distance}")
    used = story.step("The car takes {} litres.", f"{both}*{litres}/100")
    story.step("They cost {} dollars.", f"{used}*{price}")
    return (
        f"{who}'s car has {seats} seats and takes {litres} litres of fuel per 100 km. A litre costs ${price}. How many "
        f"dollars does the fuel cost for a trip to a town {distance} km away and back?"
    )


def tank(story: Story) -> str:
    """A tank that is filled and leaks."""
    who, filling, leak = story.person(), story.number(12, 40), story.number(2, 9)
    minutes, start = story.number(6, 40), story.number(20, 150, 5)
    size = start + minutes * (filling - leak)
    net = story.step("Each minute the tank gains {} litres.", f"{filling}-{leak}")
    room = story.step("It has room for {} litres.", f"{size}-{start}")
    story.step("It is full after {} minutes.", f"{room}/{net}")
    return (
        f"{who}'s tank holds {size} litres and has {start} litres in it. A pump brings {filling} litres a minute, and "
        f"through a crack {leak} litres a minute are lost. After how many minutes is the tank full?"
    )


def paint(story: Story) -> str:
    """Walls without windows, two coats, tins at a price."""
    who, wide, high = story.person(), story.number(4, 12), story.number(2, 5)
    walls, windows, price = story.number(2, 4), story.number(2, 8), story.number(11, 35)
    cover = story.number(4, 12)
    gross = story.step("The walls have {} square metres.", f"{walls}*{wide}*{high}")
    net = story.step("Without the windows there are {} square metres.", f"{gross}-{windows}")
    coats = story.step("Two coats are {} square metres.", f"2*{net}")
    tins = story.step("That takes {} tins.", f"{coats}/{cover}")
    story.require("." not in tins)
    story.step("The paint costs {} dollars.", f"{tins}*{price}")
    return (
        f"{who} paints {walls} walls, each {wide} m wide and {high} m high, with two coats. Windows take up {windows} "
        f"square metres in all and are left out. A tin of paint covers {cover} square metres and costs ${price}. How "
        f"many dollars does the paint cost?"
    )


def deposit(story: Story) -> str:
    """Interest without compounding, and what was paid out of it."""
    who, money, rate = story.person(), story.number(400, 4000, 100), story.number(2, 8)
    years, gift, branch = story.number(2, 9), story.number(20, 90, 10), story.number(11, 99)
    yearly = story.step("A year's interest is {} dollars.", f"{money}*{rate}/100")
    earned = story.step(f"In {years} years that is {{}} dollars.", f"{yearly}*{years}")
    total = story.step("The account then holds {} dollars.", f"{money}+{earned}")
    story.step("After the gift there are {} dollars.", f"{total}-{gift}")
    return (
        f"At branch {branch} of a bank {who} deposits ${money} for {years} years at {rate}% a year, paid on the "
        f"deposit alone and left in the account. Then {who} takes out ${gift} for a gift. How many dollars are left?"
    )


def concert(story: Story) -> str:
    """Tickets of two prices against the cost of the hall."""
    who, adults, children = story.person(), story.number(40, 160, 5), story.number(10, 60, 5)
    price, half = story.number(8, 24, 2), story.number(90, 400, 10)
    full = story.step("The adults pay {} dollars.", f"{adults}*{price}")
    child = story.step("A child's ticket costs {} dollars.", f"{price}/2")
    fewer = story.step("The children pay {} dollars.", f"{children}*{child}")
    takings = story.step("Together that is {} dollars.", f"{full}+{fewer}")
    story.step("After the hall is paid there are {} dollars.", f"{takings}-{half}")
    return (
        f"{adults} adults and {children} children come to {who}'s concert. A ticket costs ${price}, and children pay "
        f"half. The hall costs ${half}. How many dollars are left of the takings?"
    )


EVERYWHERE: tuple[Tale, ...] = (
    change,
    wages,
    sale,
    journey,
    bakery,
    ages,
    savings,
    recipe,
    fence,
    school,
    reading,
    hens,
    taxi,
    films,
    marbles,
    fuel,
)
"""Told in every part, with other numbers."""

VALIDATION_ONLY: tuple[Tale, ...] = (tank, paint)
TEST_ONLY: tuple[Tale, ...] = (deposit, concert)
